-- Remembers an applied migration. Called by: migrate_up.
INSERT INTO @schema@.migrations (name, checksum) VALUES ($1, $2)
