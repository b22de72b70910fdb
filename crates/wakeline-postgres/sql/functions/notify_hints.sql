-- Notifies all nodes of some hints, or that anything may have changed if they do not fit into one
-- notification. p_kind: changed, flow or hook, as in src/payload.rs; p_hints: their list, NULL for
-- none. The sender's session carries its node's id, so that the node ignores its own hints;
-- sessions of other clients carry none. Runs inside the writing transaction.

CREATE OR REPLACE FUNCTION @schema@.notify_hints(p_kind text, p_hints jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_node text := nullif(current_setting('wakeline.node', true), '');
    v_sender jsonb := jsonb_strip_nulls(jsonb_build_object('n', v_node));
    v_text text;
BEGIN
    IF p_hints IS NULL THEN
        RETURN;
    END IF;
    -- The list is under the first letter of its kind.
    v_text := (v_sender || jsonb_build_object('k', p_kind, left(p_kind, 1), p_hints))::text;
    IF octet_length(v_text) > 7000 THEN
        v_text := (v_sender || jsonb_build_object('k', 'everything'))::text;
    END IF;
    PERFORM pg_notify('@channel@', v_text);
END
$$;
