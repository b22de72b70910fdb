-- Records that a set of functions was installed.
INSERT INTO @schema@.function_sets (checksum, release, place, used_at)
VALUES ($1, $2, $3, @schema@.clock())
ON CONFLICT (checksum) DO UPDATE SET place = excluded.place, used_at = excluded.used_at
