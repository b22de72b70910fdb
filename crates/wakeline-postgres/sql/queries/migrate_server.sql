-- Returns the server's version as a number.
SELECT current_setting('server_version_num')::integer AS version
