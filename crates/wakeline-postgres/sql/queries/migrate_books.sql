-- What was applied to this schema, and with which text. Called by: migrate.
SELECT 'migration' AS kind, name, checksum FROM @schema@.migrations
UNION ALL
SELECT 'function', name, checksum FROM @schema@.function_checksums
