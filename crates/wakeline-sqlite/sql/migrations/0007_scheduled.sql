-- Messages that wait for their time. They are in no log: once they are due they are moved there, in order of
-- (deliver_at, scheduled_id).

ALTER TABLE queues ADD COLUMN scheduled INTEGER NOT NULL DEFAULT 0; -- 1: messages were scheduled in it at some time

CREATE TABLE scheduled (
    scheduled_id   INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id       INTEGER NOT NULL,
    partition_id   INTEGER NOT NULL,
    deliver_at     INTEGER NOT NULL,
    timer_key      TEXT,
    id             BLOB NOT NULL,
    transaction_id TEXT NOT NULL,
    trace_id       BLOB,
    producer       TEXT,
    scheduled_at   INTEGER NOT NULL,
    payload        BLOB NOT NULL             -- JSON text
) STRICT;
CREATE INDEX scheduled_of_queue ON scheduled (queue_id, deliver_at, scheduled_id);
CREATE INDEX scheduled_of_partition ON scheduled (partition_id, deliver_at, scheduled_id);
CREATE INDEX scheduled_transaction ON scheduled (partition_id, transaction_id);
CREATE UNIQUE INDEX scheduled_key ON scheduled (queue_id, timer_key) WHERE timer_key IS NOT NULL;
