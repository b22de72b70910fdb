-- Records that groups have settled something for the first time. A locked row is left to a later
-- settlement. Lock order: tries groups by id, never waits.

CREATE OR REPLACE FUNCTION @schema@.group_settled(p_groups integer[])
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.groups g SET settled = true
    FROM (
        SELECT x.group_id FROM @schema@.groups x WHERE x.group_id = ANY (p_groups)
            AND NOT x.settled
        ORDER BY x.group_id FOR NO KEY UPDATE SKIP LOCKED) l
    WHERE g.group_id = l.group_id;
END
$$;
