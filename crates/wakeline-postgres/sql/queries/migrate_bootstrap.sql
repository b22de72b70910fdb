-- The book-keeping of migrations themselves. Called by: migrate_up, under its advisory lock.
CREATE TABLE IF NOT EXISTS @schema@.migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS @schema@.function_checksums (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
