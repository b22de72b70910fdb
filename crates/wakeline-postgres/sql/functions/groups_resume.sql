-- Records a poll for all groups of queues in which every group is idle: a consumer has returned
-- after a time without polls. Otherwise the first group to return would make the others lose what
-- they still have to read. A locked row is left out. Lock order: tries groups by id, never waits.

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
