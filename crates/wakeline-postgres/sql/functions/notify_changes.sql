-- Tells all nodes of some changes, or of everything if they do not fit into one notification.
-- The form is that of src/payload.rs. The sender's session carries its node's id, so that the node
-- does not hear itself; sessions of others carry none.
-- Called by: notify_segments, notify_cursors; inside the writing transaction.

CREATE OR REPLACE FUNCTION @schema@.notify_changes(p_changes jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_node text := nullif(current_setting('wakeline.node', true), '');
    v_text text;
BEGIN
    IF p_changes IS NULL THEN
        RETURN;
    END IF;
    v_text := jsonb_strip_nulls(
        jsonb_build_object('k', 'changed', 'n', v_node, 'c', p_changes))::text;
    IF octet_length(v_text) > 7000 THEN
        v_text := jsonb_strip_nulls(jsonb_build_object('k', 'everything', 'n', v_node))::text;
    END IF;
    PERFORM pg_notify('@channel@', v_text);
END
$$;
