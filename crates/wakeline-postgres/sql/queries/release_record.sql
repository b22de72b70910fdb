-- Records that a release has installed its functions for users.
INSERT INTO @schema@.releases (release, oldest, api_checksum, function_set) VALUES ($1, $2, $3, $4)
ON CONFLICT (release) DO UPDATE SET oldest = excluded.oldest, api_checksum = excluded.api_checksum,
    function_set = excluded.function_set, installed_at = clock_timestamp()
