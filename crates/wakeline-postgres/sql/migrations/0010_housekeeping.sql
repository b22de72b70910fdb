-- What queues with limits of time need: when to look through them, and what their groups lost.

-- One row per queue that has, or had, such limits. Written by queue_configure and by housekeeping,
-- which one node at a time does.
CREATE TABLE @schema@.housekeeping (
    queue_id integer PRIMARY KEY,
    due_at timestamptz,
    after_partition bigint NOT NULL DEFAULT 0,
    next_at timestamptz,
    expired bigint NOT NULL DEFAULT 0,
    evicted bigint NOT NULL DEFAULT 0
);
CREATE INDEX housekeeping_due ON @schema@.housekeeping (due_at) WHERE due_at IS NOT NULL;
COMMENT ON COLUMN @schema@.housekeeping.due_at IS
    'when to look through the queue; NULL: it has no limits of time';
COMMENT ON COLUMN @schema@.housekeeping.after_partition IS
    'the partition behind which the look through the queue goes on';
COMMENT ON COLUMN @schema@.housekeeping.next_at IS
    'when something that was met so far in this look is past its time';

-- What claims passed over, for housekeeping to add up: a counter that they shared would make them
-- wait for each other.
CREATE TABLE @schema@.losses (
    loss_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    expired bigint NOT NULL,
    evicted bigint NOT NULL
);
