-- Counts all groups of queues as polled where every group of the queue is idle: somebody comes back
-- after a time in which nobody polled. Otherwise the first one to come back would take from the
-- others what they have yet to read. A row that somebody holds is left out.
-- Called by: group_polled, group_begin. Lock order: tries groups by id, never waits.

CREATE OR REPLACE FUNCTION @schema@.groups_resume(p_queues integer[], p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.groups g SET polled_at = p_now
    FROM (
        SELECT x.group_id FROM @schema@.groups x
        JOIN @schema@.queues q ON q.queue_id = x.queue_id
        WHERE x.queue_id = ANY (p_queues) AND NOT EXISTS (
            SELECT FROM @schema@.groups o
            WHERE o.queue_id = x.queue_id AND coalesce(@schema@.group_idle_at(
                o.polled_at, o.settled, q.group_idle_secs) > p_now, true))
        ORDER BY x.group_id FOR NO KEY UPDATE OF x SKIP LOCKED) l
    WHERE g.group_id = l.group_id;
END
$$;
