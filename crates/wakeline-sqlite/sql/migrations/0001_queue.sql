-- The queue: logs of messages, cursors of groups that read them, what waits for a retry, dead letters.
-- Times are microseconds since 1970 by the store's clock. Ids of messages, traces and leases are UUIDs in 16 bytes.

-- The store's clock as it stood at the last commit: it never runs backwards within the file.
CREATE TABLE clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL
) STRICT;
INSERT INTO clock (one, at) VALUES (1, 0);

-- AUTOINCREMENT: an id that was deleted is never given out again, so an old lease cannot meet a new queue.
CREATE TABLE queues (
    queue_id   INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    namespace  TEXT,
    task       TEXT,
    options    TEXT NOT NULL,               -- JSON
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE partitions (
    partition_id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id     INTEGER NOT NULL,
    name         TEXT NOT NULL,
    next_offset  INTEGER NOT NULL DEFAULT 0, -- the offset that the next message gets
    last_push_at INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue_id, name)
) STRICT;

CREATE TABLE messages (
    partition_id   INTEGER NOT NULL,
    offset         INTEGER NOT NULL,
    id             BLOB NOT NULL,
    transaction_id TEXT NOT NULL,
    trace_id       BLOB,
    producer       TEXT,
    created_at     INTEGER NOT NULL,
    payload        BLOB NOT NULL,            -- JSON text
    PRIMARY KEY (partition_id, offset)
) STRICT, WITHOUT ROWID;
-- Finds repeated pushes, and the message that a settlement names.
CREATE INDEX messages_transaction ON messages (partition_id, transaction_id, offset);

CREATE TABLE groups (
    group_id   INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id   INTEGER NOT NULL,
    name       TEXT NOT NULL,
    mode       TEXT NOT NULL CHECK (mode IN ('all', 'new', 'from')),
    from_at    INTEGER,
    created_at INTEGER NOT NULL,
    UNIQUE (queue_id, name)
) STRICT;

-- Where groups begin in queues that do not exist yet: by the queue's name, or by namespace and task.
CREATE TABLE subscriptions (
    subscription_id INTEGER PRIMARY KEY AUTOINCREMENT,
    group_name      TEXT NOT NULL,
    queue_name      TEXT,
    namespace       TEXT,
    task            TEXT,
    mode            TEXT NOT NULL CHECK (mode IN ('all', 'new', 'from')),
    from_at         INTEGER,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX subscriptions_group ON subscriptions (group_name);

CREATE TABLE cursors (
    partition_id INTEGER NOT NULL,
    group_id     INTEGER NOT NULL,
    next_offset  INTEGER NOT NULL,           -- the first offset that was never leased
    due_at       INTEGER,                    -- possibly early, never late; NULL: nothing to read; lease end while leased
    freed_at     INTEGER NOT NULL,           -- when it was last served or freed: others that were due before go first
    parked       INTEGER NOT NULL DEFAULT 0, -- exact count of this cursor's rows in retries
    lease_token  BLOB,
    lease_until  INTEGER,
    lease_start  INTEGER,                    -- next_offset before this lease
    lease_set    TEXT,                       -- offsets not settled yet, as in '3-9,12'
    PRIMARY KEY (partition_id, group_id)
) STRICT, WITHOUT ROWID;
-- The order in which partitions are offered. Cursors with nothing to read are not in it.
CREATE INDEX cursors_due ON cursors (group_id, due_at, partition_id) WHERE due_at IS NOT NULL;
-- Finds what a repeated claim holds already.
CREATE INDEX cursors_lease ON cursors (lease_token) WHERE lease_token IS NOT NULL;

-- Messages below a cursor's next offset that wait to be delivered again; also while they are leased again.
CREATE TABLE retries (
    partition_id INTEGER NOT NULL,
    group_id     INTEGER NOT NULL,
    offset       INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    alone        INTEGER NOT NULL,           -- 1: to be delivered alone
    error        TEXT,
    PRIMARY KEY (partition_id, group_id, offset)
) STRICT, WITHOUT ROWID;
CREATE INDEX retries_due ON retries (partition_id, group_id, due_at, offset);

-- A dead letter owns its data: it outlives its message and its group, not its queue.
CREATE TABLE dead_letters (
    dead_letter_id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id       INTEGER NOT NULL,
    partition_id   INTEGER NOT NULL,
    offset         INTEGER NOT NULL,
    group_name     TEXT NOT NULL,
    id             BLOB NOT NULL,
    transaction_id TEXT NOT NULL,
    trace_id       BLOB,
    producer       TEXT,
    created_at     INTEGER NOT NULL,
    payload        BLOB NOT NULL,
    failures       INTEGER NOT NULL,
    error          TEXT,
    failed_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX dead_letters_queue ON dead_letters (queue_id, dead_letter_id);
CREATE INDEX dead_letters_message ON dead_letters (partition_id, offset);
