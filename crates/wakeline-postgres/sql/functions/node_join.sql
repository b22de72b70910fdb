-- Adds a node to the running ones, notifies the others, and returns them. The lock belongs to the
-- session, so it exists as long as the LISTEN connection that calls this; it is held before the row
-- becomes visible, so no node takes a living one for dead. The key is new for each connection: the
-- server may still hold the last one for a connection that is already lost. Call it after LISTEN.
-- Lock order: rows of nodes, which no other statement locks.

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
