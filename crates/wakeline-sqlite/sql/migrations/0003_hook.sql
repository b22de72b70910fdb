-- Webhooks: applications with endpoints, messages, one delivery per message and endpoint, the attempts made.
-- Times are microseconds since 1970 by the store's clock. Ids are UUIDs in 16 bytes; secrets and headers come sealed.

-- AUTOINCREMENT, here and below: a number that was deleted is never given out again.
CREATE TABLE hook_applications (
    application_no INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB NOT NULL UNIQUE,
    uid            TEXT UNIQUE,                -- NULL also once it is deleted: free for another
    name           TEXT NOT NULL,
    rate_limit     INTEGER,
    metadata       BLOB NOT NULL,              -- JSON
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER                     -- set: gone for everybody who asks; its rows go by chores
) STRICT;
CREATE INDEX hook_applications_deleted ON hook_applications (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE hook_event_types (
    name         TEXT PRIMARY KEY,
    description  TEXT NOT NULL,
    schemas      BLOB,                         -- JSON
    enforced     INTEGER NOT NULL,
    archived     INTEGER NOT NULL,
    deprecated   INTEGER NOT NULL,
    feature_flag TEXT,
    group_name   TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE hook_endpoints (
    endpoint_no    INTEGER PRIMARY KEY AUTOINCREMENT,
    application_no INTEGER NOT NULL,
    id             BLOB NOT NULL UNIQUE,
    uid            TEXT,                       -- NULL also once it is deleted
    url            TEXT NOT NULL,
    description    TEXT NOT NULL,
    event_types    TEXT NOT NULL,              -- JSON, a list of patterns
    channels       TEXT NOT NULL,              -- JSON, a list
    disabled       TEXT CHECK (disabled IN ('asked', 'gone', 'failing')),
    metadata       BLOB NOT NULL,              -- JSON
    headers        BLOB NOT NULL,
    options        TEXT NOT NULL,              -- JSON
    version        INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER                     -- set: gone for everybody who asks; named by what was sent to it
) STRICT;
CREATE UNIQUE INDEX hook_endpoints_uid ON hook_endpoints (application_no, uid) WHERE uid IS NOT NULL;
CREATE INDEX hook_endpoints_application ON hook_endpoints (application_no, id);

CREATE TABLE hook_secrets (
    endpoint_no INTEGER NOT NULL,
    secret_no   INTEGER NOT NULL,              -- the highest is the current one
    sealed      BLOB NOT NULL,
    expires_at  INTEGER,                       -- NULL: the current one
    PRIMARY KEY (endpoint_no, secret_no)
) STRICT, WITHOUT ROWID;

-- Who gets which event types: a message looks up every pattern that matches its type. Without patterns: '*'.
CREATE TABLE hook_filters (
    application_no INTEGER NOT NULL,
    pattern        TEXT NOT NULL,
    endpoint_no    INTEGER NOT NULL,
    PRIMARY KEY (application_no, pattern, endpoint_no)
) STRICT, WITHOUT ROWID;

-- When an endpoint can be served, and what holds it back: apart from the rest of it, which is long and changes seldom.
CREATE TABLE hook_lanes (
    endpoint_no     INTEGER PRIMARY KEY,
    pulled          INTEGER NOT NULL,          -- 1: its owner fetches
    due_at          INTEGER,                   -- from when it can be served; NULL: nothing waits, or it is switched off
    fresh_at        INTEGER,                   -- the same for first attempts only
    served_at       INTEGER NOT NULL DEFAULT 0, -- others that became due before go first
    rate_at         INTEGER NOT NULL DEFAULT 0, -- the time up to which its rate is used
    throttled_until INTEGER NOT NULL DEFAULT 0,
    failures        INTEGER NOT NULL DEFAULT 0, -- in a row, while the breaker is closed
    open_until      INTEGER,                   -- NULL: the breaker is closed; passed: it is half-open
    successes       INTEGER NOT NULL DEFAULT 0, -- in a row, while it is half-open
    failing_since   INTEGER
) STRICT;
-- The order in which endpoints are served. Those with nothing to send are not in it.
CREATE INDEX hook_lanes_due ON hook_lanes (pulled, due_at, endpoint_no) WHERE due_at IS NOT NULL;
CREATE INDEX hook_lanes_fresh ON hook_lanes (pulled, fresh_at, endpoint_no) WHERE fresh_at IS NOT NULL;

-- The number is the order in which messages were committed.
CREATE TABLE hook_messages (
    message_no     INTEGER PRIMARY KEY AUTOINCREMENT,
    application_no INTEGER NOT NULL,
    id             BLOB NOT NULL,
    event_type     TEXT NOT NULL,
    event_id       TEXT,
    channels       TEXT,                       -- JSON, a list; NULL: none
    created_at     INTEGER NOT NULL,
    UNIQUE (application_no, id)
) STRICT;
-- The order of their numbers, for jobs.
CREATE INDEX hook_messages_order ON hook_messages (application_no);
CREATE UNIQUE INDEX hook_messages_event ON hook_messages (application_no, event_id) WHERE event_id IS NOT NULL;

-- Apart from the message, because it is dropped when it expires.
CREATE TABLE hook_payloads (
    message_no INTEGER PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    payload    BLOB NOT NULL
) STRICT;
CREATE INDEX hook_payloads_expiry ON hook_payloads (expires_at);

-- The number is the order of an endpoint in strict order.
CREATE TABLE hook_deliveries (
    delivery_no INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint_no INTEGER NOT NULL,
    message_no  INTEGER NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('waiting', 'leased', 'delivered', 'failed', 'cancelled')),
    class       INTEGER NOT NULL,              -- 0: its first attempt; 1: a later one; 2, 3: behind these (3: its first)
    due_at      INTEGER,                       -- also while it is leased, so that it can be given back; NULL: it has ended
    attempts    INTEGER NOT NULL DEFAULT 0,    -- that have ended
    scheduled   INTEGER NOT NULL DEFAULT 0,    -- of these, by its present schedule
    in_order    INTEGER,                       -- 1: it has not ended, and its endpoint is in strict order
    pulled      INTEGER NOT NULL,              -- as its endpoint, while it is under way
    back_state  TEXT,                          -- set: its attempt was asked for; afterwards it is this again,
    back_due_at INTEGER,                       -- with this time
    back_behind INTEGER,                       -- and, if 1, behind all others
    lease_key   BLOB,                          -- the id of the attempt
    leased_at   INTEGER,
    lease_until INTEGER,
    cancelled   INTEGER NOT NULL DEFAULT 0,    -- 1: nothing follows the attempt that is under way
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (endpoint_no, message_no)
) STRICT;
CREATE INDEX hook_deliveries_message ON hook_deliveries (message_no, endpoint_no);
-- What waits for an endpoint. What is under way or has ended is not in it.
CREATE INDEX hook_deliveries_waiting ON hook_deliveries (endpoint_no, class, due_at, delivery_no) WHERE state = 'waiting';
CREATE INDEX hook_deliveries_leased ON hook_deliveries (endpoint_no, lease_until) WHERE state = 'leased';
-- When leases of deliveries that are sent end, over all endpoints.
CREATE INDEX hook_deliveries_sent ON hook_deliveries (lease_until) WHERE state = 'leased' AND pulled = 0;
-- Finds what a repeated claim holds already.
CREATE INDEX hook_deliveries_lease ON hook_deliveries (lease_key) WHERE lease_key IS NOT NULL;
CREATE INDEX hook_deliveries_order ON hook_deliveries (endpoint_no, delivery_no) WHERE in_order = 1;

CREATE TABLE hook_attempts (
    attempt_no     INTEGER PRIMARY KEY,
    application_no INTEGER NOT NULL,
    id             BLOB NOT NULL,
    endpoint_no    INTEGER NOT NULL,
    message_no     INTEGER NOT NULL,
    number         INTEGER NOT NULL,           -- of its delivery, from 1
    outcome        TEXT NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'unknown')),
    manual         INTEGER NOT NULL,
    began_at       INTEGER NOT NULL,
    took           INTEGER NOT NULL,           -- microseconds
    status         INTEGER,
    response       BLOB,                       -- NULL: it was removed
    error          TEXT,
    url            TEXT NOT NULL,
    UNIQUE (application_no, id)
) STRICT;
CREATE INDEX hook_attempts_endpoint ON hook_attempts (endpoint_no, id);
CREATE INDEX hook_attempts_message ON hook_attempts (message_no, id);

-- Requests that made something, so that repeating them makes nothing.
CREATE TABLE hook_keys (
    scope          TEXT NOT NULL,              -- what was made
    application_no INTEGER NOT NULL,           -- 0: it belongs to none
    key            TEXT NOT NULL,
    print          BLOB NOT NULL,
    made           TEXT NOT NULL,              -- its id or name
    expires_at     INTEGER NOT NULL,
    PRIMARY KEY (scope, application_no, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX hook_keys_expiry ON hook_keys (expires_at);

CREATE TABLE hook_jobs (
    job_no         INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB NOT NULL UNIQUE,
    application_no INTEGER NOT NULL,
    kind           TEXT NOT NULL CHECK (kind IN ('recover', 'replay', 'resend', 'cancel')),
    filter         TEXT NOT NULL,              -- JSON
    place          INTEGER NOT NULL,           -- the last message that was looked at
    place_endpoint BLOB,                       -- and the last endpoint of it; NULL: all
    seen           INTEGER NOT NULL,
    changed        INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    finished_at    INTEGER
) STRICT;
CREATE INDEX hook_jobs_running ON hook_jobs (job_no) WHERE finished_at IS NULL;
CREATE INDEX hook_jobs_finished ON hook_jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX hook_jobs_application ON hook_jobs (application_no);
