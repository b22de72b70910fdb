-- Enters a node among the running ones, tells the others, and returns them.
-- The lock is the session's, so it lives and dies with the LISTEN connection that calls this; it
-- is held before the row can be seen, so nobody takes a living node for dead. The key is new for
-- each connection: the server may still hold the last one for a connection that is already lost.
-- Called by: HintListener, after LISTEN. Lock order: rows of nodes, which nothing else locks.

CREATE OR REPLACE FUNCTION @schema@.node_join(p_node uuid, p_lock_key bigint)
RETURNS SETOF uuid
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_lock(p_lock_key) THEN
        RAISE EXCEPTION 'advisory lock % of node % is taken', p_lock_key, p_node
            USING ERRCODE = 'lock_not_available';
    END IF;
    PERFORM @schema@.node_reap();
    INSERT INTO @schema@.nodes (node_id, lock_key) VALUES (p_node, p_lock_key)
    ON CONFLICT (node_id) DO UPDATE SET lock_key = excluded.lock_key;
    PERFORM pg_notify('@channel@', jsonb_build_object('k', 'hello', 'n', p_node)::text);
    RETURN QUERY SELECT node_id FROM @schema@.nodes WHERE node_id <> p_node;
END
$$;
