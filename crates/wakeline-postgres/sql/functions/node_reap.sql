-- Removes nodes whose LISTEN connection is gone, and returns those that are left. A node is gone if
-- the lock of its connection can be taken. The row is locked first, so that the key is the current
-- one even if its node is joining again; a row in use is skipped until the next call. A node calls
-- it once a minute while it knows other nodes.

CREATE OR REPLACE FUNCTION @schema@.node_reap() RETURNS SETOF uuid
LANGUAGE plpgsql AS $$
DECLARE
    v_node record;
BEGIN
    FOR v_node IN
        SELECT node_id, lock_key FROM @schema@.nodes ORDER BY node_id FOR UPDATE SKIP LOCKED
    LOOP
        IF pg_try_advisory_xact_lock(v_node.lock_key) THEN
            DELETE FROM @schema@.nodes WHERE node_id = v_node.node_id;
        END IF;
    END LOOP;
    RETURN QUERY SELECT node_id FROM @schema@.nodes;
END
$$;
