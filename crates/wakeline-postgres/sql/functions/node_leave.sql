-- Removes a node that shuts down from the running ones and notifies the others. A node that dies
-- instead is found by node_reap.

CREATE OR REPLACE FUNCTION @schema@.node_leave(p_node uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM @schema@.nodes WHERE node_id = p_node;
    PERFORM pg_notify('@channel@', jsonb_build_object('k', 'bye', 'n', p_node)::text);
END
$$;
