-- Whether this database was ever migrated.
-- Called by: migrate::status.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations')
