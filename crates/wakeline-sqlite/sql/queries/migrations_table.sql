-- What was applied, and with which text.
-- Called by: migrate::up, under the write lock.
CREATE TABLE IF NOT EXISTS migrations (
    version  INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    checksum TEXT NOT NULL
) STRICT
