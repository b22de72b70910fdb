-- Remembers which body of a function is in place. Called by: migrate_up.
INSERT INTO @schema@.function_checksums (name, checksum) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, applied_at = clock_timestamp()
