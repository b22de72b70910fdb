-- Queues that have, or had, limits of time: when to look through them, and what their groups lost.

CREATE TABLE housekeeping (
    queue_id        INTEGER PRIMARY KEY,
    due_at          INTEGER,                    -- when to look through the queue; NULL: it has no limits of time
    after_partition INTEGER NOT NULL DEFAULT 0, -- the partition behind which the look goes on
    next_at         INTEGER,                    -- when something that was met so far in this look is past its time
    expired         INTEGER NOT NULL DEFAULT 0, -- messages that groups lost, by what they were lost to
    evicted         INTEGER NOT NULL DEFAULT 0,
    told_expired    INTEGER NOT NULL DEFAULT 0, -- how many of them were told of
    told_evicted    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX housekeeping_due ON housekeeping (due_at) WHERE due_at IS NOT NULL;
-- The partitions of a queue in the order in which they are looked through.
CREATE INDEX partitions_of_queue ON partitions (queue_id);
