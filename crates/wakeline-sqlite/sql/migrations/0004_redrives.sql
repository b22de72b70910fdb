-- Jobs that redrive dead letters. The filter is kept as it was given; last is the newest dead letter when the
-- job started, place the newest that it has dealt with: it goes on behind it, whoever carries it on.
CREATE TABLE redrives (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    id         BLOB NOT NULL UNIQUE,
    letter     INTEGER,
    queue      TEXT,
    group_name TEXT,
    partition  TEXT,
    from_at    INTEGER,
    to_at      INTEGER,
    error      TEXT,
    to_queue   TEXT,
    rate       INTEGER,                     -- dead letters a second; NULL: as fast as can be
    last       INTEGER NOT NULL,
    place      INTEGER NOT NULL DEFAULT 0,
    total      INTEGER NOT NULL,
    done       INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    state      INTEGER NOT NULL DEFAULT 0,  -- 0 running, 1 finished, 2 cancelled
    due_at     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX redrives_due ON redrives (due_at, number) WHERE state = 0;
