-- Returns the newest release that has installed functions here.
SELECT release, oldest, api_checksum FROM @schema@.releases ORDER BY release DESC LIMIT 1
