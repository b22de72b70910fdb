-- Records that groups were polled. A locked row is left to a later poll. Lock order: tries groups
-- by id, never waits.

CREATE OR REPLACE FUNCTION @schema@.group_polled(p_groups integer[], p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @schema@.groups_resume(ARRAY(
        SELECT x.queue_id FROM @schema@.groups x WHERE x.group_id = ANY (p_groups)), p_now);
    UPDATE @schema@.groups g SET polled_at = p_now
    FROM (
        SELECT x.group_id FROM @schema@.groups x WHERE x.group_id = ANY (p_groups)
        ORDER BY x.group_id FOR NO KEY UPDATE SKIP LOCKED) l
    WHERE g.group_id = l.group_id;
END
$$;
