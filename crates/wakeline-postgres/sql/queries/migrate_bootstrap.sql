-- Creates the record of migrations. Runs under the advisory lock of migrations.
CREATE TABLE IF NOT EXISTS @schema@.migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
