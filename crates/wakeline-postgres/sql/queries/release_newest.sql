-- The newest release that installed something here. Called by: migrate.
SELECT release, oldest, api_checksum FROM @schema@.releases ORDER BY release DESC LIMIT 1
