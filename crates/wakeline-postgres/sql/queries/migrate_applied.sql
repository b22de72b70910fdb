-- Migrations that were applied to this schema, and with which text. Called by: migrate.
SELECT name, checksum FROM @schema@.migrations
