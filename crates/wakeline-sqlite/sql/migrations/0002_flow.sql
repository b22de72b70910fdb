-- Durable orchestrations: lanes of messages, instances with their executions and histories, work for workers.
-- Times are microseconds since 1970 by the store's clock. Keys of leases are UUIDs in 16 bytes.

-- What code instances need: claims probe the index of lanes by the number.
CREATE TABLE capabilities (
    capability_id INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE
) STRICT;

-- AUTOINCREMENT: an id that was deleted is never given out again, so an old token cannot meet a new lane.
CREATE TABLE lanes (
    lane_id       INTEGER PRIMARY KEY AUTOINCREMENT,
    instance      TEXT NOT NULL UNIQUE,
    capability_id INTEGER,                     -- NULL: needs nothing yet, and is claimed by nobody
    due_at        INTEGER,                     -- NULL: nothing to take, or suspended; lease end while leased
    next_seq      INTEGER NOT NULL DEFAULT 1,  -- the place that the next message gets
    lease_key     BLOB,                        -- kept after its end until the next claim, so that attempts count
    lease_until   INTEGER,
    lease_at      INTEGER,                     -- a lease holds what was visible then,
    lease_seq     INTEGER,                     -- up to this place
    suspended     TEXT CHECK (suspended IN ('operator', 'mismatch')),
    reason        TEXT,                        -- of the suspension
    watched       INTEGER NOT NULL DEFAULT 0   -- 1: another process may wait for the outcome
) STRICT;
-- The order in which turns are offered. Lanes with nothing to take are not in it.
CREATE INDEX lanes_due ON lanes (capability_id, due_at, lane_id) WHERE due_at IS NOT NULL;
-- Finds what a repeated claim holds already.
CREATE INDEX lanes_lease ON lanes (lease_key) WHERE lease_key IS NOT NULL;
CREATE INDEX lanes_suspended ON lanes (suspended, capability_id) WHERE suspended IS NOT NULL;

CREATE TABLE lane_messages (
    lane_id       INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    visible_at    INTEGER NOT NULL,
    attempts      INTEGER NOT NULL DEFAULT 0,  -- leases that ended without a commit; a live one is not in it
    starts        INTEGER NOT NULL,            -- 1: may begin an execution
    key_execution INTEGER,
    key_event     INTEGER,
    payload       BLOB NOT NULL,
    PRIMARY KEY (lane_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX lane_messages_visible ON lane_messages (lane_id, visible_at, seq);
CREATE INDEX lane_messages_starts ON lane_messages (lane_id) WHERE starts = 1;
CREATE UNIQUE INDEX lane_messages_key ON lane_messages (lane_id, key_execution, key_event)
    WHERE key_execution IS NOT NULL;

CREATE TABLE instances (
    lane_id        INTEGER PRIMARY KEY,
    instance       TEXT NOT NULL,              -- as in lanes, for the order of lists
    name           TEXT NOT NULL,
    parent         TEXT,                       -- an instance's id; it need not exist
    parent_event   INTEGER,
    execution      INTEGER NOT NULL,           -- the current one: the highest
    state          TEXT NOT NULL,
    output         BLOB,
    status         TEXT,
    status_version INTEGER NOT NULL DEFAULT 0,
    kv_version     INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    ended_at       INTEGER
) STRICT;
CREATE INDEX instances_created ON instances (created_at, instance);
CREATE INDEX instances_name ON instances (name, created_at, instance);
CREATE INDEX instances_state ON instances (state, created_at, instance);
CREATE INDEX instances_parent ON instances (parent) WHERE parent IS NOT NULL;
-- Instances that ended and are nobody's children, for deleting old ones.
CREATE INDEX instances_ended ON instances (ended_at, instance) WHERE ended_at IS NOT NULL AND parent IS NULL;

CREATE TABLE executions (
    lane_id       INTEGER NOT NULL,
    execution     INTEGER NOT NULL,
    version       TEXT,
    state         TEXT NOT NULL,
    output        BLOB,
    last_event    INTEGER NOT NULL DEFAULT 0,
    history_bytes INTEGER NOT NULL DEFAULT 0,
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    PRIMARY KEY (lane_id, execution)
) STRICT, WITHOUT ROWID;

-- The events of one turn per row, as the runtime encoded them.
CREATE TABLE history (
    lane_id     INTEGER NOT NULL,
    execution   INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    last_event  INTEGER NOT NULL,
    events      BLOB NOT NULL,
    PRIMARY KEY (lane_id, execution, first_event)
) STRICT, WITHOUT ROWID;

-- The key-value state as of the start of the current execution.
CREATE TABLE kv (
    lane_id    INTEGER NOT NULL,
    key        TEXT NOT NULL,
    value      BLOB NOT NULL,
    execution  INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (lane_id, key)
) STRICT, WITHOUT ROWID;

-- What the current execution changed in it; merged when the execution ends.
CREATE TABLE kv_changes (
    lane_id    INTEGER NOT NULL,
    key        TEXT NOT NULL,
    value      BLOB,                           -- NULL: the key has no value any more
    execution  INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (lane_id, key)
) STRICT, WITHOUT ROWID;

-- Which workers take an activity; 0 stands for no tag.
CREATE TABLE tags (
    tag_id INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE work (
    work_id     INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of insertion
    lane_id     INTEGER NOT NULL,
    execution   INTEGER NOT NULL,
    activity    INTEGER NOT NULL,
    tag_id      INTEGER NOT NULL,
    session     TEXT,
    taker       TEXT NOT NULL,                 -- '*': anyone; '+': whoever claims sessions; '=owner': that one
    due_at      INTEGER,                       -- NULL: can be taken; otherwise its time, or its lease end
    lease_key   BLOB,                          -- kept after its end until the next claim
    lease_until INTEGER,
    attempts    INTEGER NOT NULL DEFAULT 0,
    payload     BLOB NOT NULL,
    UNIQUE (lane_id, execution, activity)
) STRICT;
-- First come, first served, by tag.
CREATE INDEX work_ready ON work (tag_id, taker, work_id) WHERE due_at IS NULL;
CREATE INDEX work_due ON work (tag_id, taker, due_at) WHERE due_at IS NOT NULL;
-- Finds what a repeated claim holds already.
CREATE INDEX work_lease ON work (lease_key) WHERE lease_key IS NOT NULL;
CREATE INDEX work_session ON work (session) WHERE session IS NOT NULL;

-- Who takes the activities of a session, and until when. Without a row, or after its end: nobody.
CREATE TABLE sessions (
    session   TEXT PRIMARY KEY,
    owner     TEXT,                            -- NULL: it has ended, and its work was opened to all
    until     INTEGER NOT NULL,
    active_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_until ON sessions (until) WHERE owner IS NOT NULL;
CREATE INDEX sessions_owner ON sessions (owner, until) WHERE owner IS NOT NULL;
