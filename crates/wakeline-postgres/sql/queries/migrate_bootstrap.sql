-- The record of migrations itself. Called by: migrate_up, under its advisory lock.
CREATE TABLE IF NOT EXISTS @schema@.migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
