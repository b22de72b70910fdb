-- Returns the groups of a queue that count against its limits and prevent the removal of messages:
-- those that are not idle; or all of them, if all are idle. Reads only.

CREATE OR REPLACE FUNCTION @schema@.groups_retaining(p_queue integer, p_now timestamptz)
RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT coalesce(
            array_agg(g.group_id) FILTER (WHERE coalesce(@schema@.group_idle_at(
                g.polled_at, g.settled, q.group_idle_secs) > p_now, true)),
            array_agg(g.group_id), '{}')
        FROM @schema@.groups g JOIN @schema@.queues q ON q.queue_id = g.queue_id
        WHERE g.queue_id = p_queue);
END
$$;
