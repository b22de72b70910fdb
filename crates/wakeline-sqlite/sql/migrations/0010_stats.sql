-- What happened, minute by minute: nodes write down what they counted. A node writes a slot of about a minute
-- as a whole, and again while the slot lasts.

CREATE TABLE queue_stats (
    node   BLOB NOT NULL,                   -- made by a node when it starts
    slot   INTEGER NOT NULL,
    queue  TEXT NOT NULL,                   -- empty: of no queue, or of too many
    bucket INTEGER NOT NULL,                -- the minute in which the slot began
    push_requests INTEGER NOT NULL,
    push_messages INTEGER NOT NULL,
    push_duplicates INTEGER NOT NULL,
    pop_requests INTEGER NOT NULL,
    pop_messages INTEGER NOT NULL,
    pop_empty INTEGER NOT NULL,
    ack_requests INTEGER NOT NULL,
    ack_success INTEGER NOT NULL,
    ack_failed INTEGER NOT NULL,
    dead_letters INTEGER NOT NULL,
    transactions INTEGER NOT NULL,
    lag_sum INTEGER NOT NULL,
    lag_max INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    evicted INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    parked INTEGER NOT NULL,
    PRIMARY KEY (node, slot, queue)
) STRICT, WITHOUT ROWID;

CREATE INDEX queue_stats_bucket ON queue_stats (bucket);

CREATE TABLE node_stats (
    node   BLOB NOT NULL,
    slot   INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    waiters INTEGER NOT NULL,
    store_errors INTEGER NOT NULL,
    PRIMARY KEY (node, slot)
) STRICT, WITHOUT ROWID;

CREATE INDEX node_stats_bucket ON node_stats (bucket);
