-- The ledger: how every lease ended. A lease that is out is told by its cursor; its end writes one row.

ALTER TABLE cursors ADD COLUMN taken_at INTEGER;       -- when messages were last taken; stays after the lease
ALTER TABLE cursors ADD COLUMN taken_by TEXT;          -- who took them
ALTER TABLE cursors ADD COLUMN lease_all TEXT;         -- what the lease was given, as lease_set
ALTER TABLE cursors ADD COLUMN lease_failed TEXT;      -- of these, what failed so far
ALTER TABLE cursors ADD COLUMN lease_expired TEXT;     -- what was given up by hand after the lease had run out
ALTER TABLE cursors ADD COLUMN lease_released TEXT;    -- what was given back so far

CREATE TABLE ledger_entries (
    entry_id     INTEGER PRIMARY KEY,
    partition_id INTEGER NOT NULL,
    group_id     INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    last_offset  INTEGER NOT NULL,
    lease_token  BLOB,                                  -- NULL: settled at once (autoAck)
    worker       TEXT,
    offered_at   INTEGER NOT NULL,
    leased_until INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    offsets      TEXT NOT NULL,                         -- acked is what is in none of the next three
    failed       TEXT,
    expired      TEXT,
    released     TEXT
) STRICT;
-- A message is looked for among the leases that begin up to 10,000 offsets before it, and among those that
-- span more than that, of which there are few: only retries make them.
CREATE INDEX ledger_of_message ON ledger_entries (partition_id, first_offset);
CREATE INDEX ledger_wide ON ledger_entries (partition_id) WHERE last_offset > first_offset + 10000;
CREATE INDEX ledger_age ON ledger_entries (expires_at);
