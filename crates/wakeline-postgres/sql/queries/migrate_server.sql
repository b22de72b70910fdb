-- The server's version, as a number. Called by: migrate.
SELECT current_setting('server_version_num')::integer AS version
