-- Removes rows that a deleted application left, at most p_rows; the application itself last.
-- Returns their number. Lock order: the application, without waiting; no other transaction writes
-- its rows.

CREATE OR REPLACE FUNCTION @schema@.hook_leftovers(p_rows integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_app uuid;
    v_rows bigint;
    v_ids uuid[];
BEGIN
    SELECT a.application_id INTO v_app FROM @schema@.hook_applications a
    WHERE a.deleted_at IS NOT NULL ORDER BY a.deleted_at LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- The deletion may have been interrupted.
    IF @schema@.hook_application_stop(v_app, p_rows) THEN
        RETURN p_rows;
    END IF;
    DELETE FROM @schema@.hook_filters t USING (
        SELECT f.pattern, f.endpoint_id FROM @schema@.hook_filters f
        WHERE f.application_id = v_app LIMIT p_rows) x
    WHERE t.application_id = v_app AND t.pattern = x.pattern AND t.endpoint_id = x.endpoint_id;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows > 0 THEN
        RETURN v_rows;
    END IF;
    DELETE FROM @schema@.hook_attempts t WHERE t.application_id = v_app AND t.attempt_id IN (
        SELECT k.attempt_id FROM @schema@.hook_attempts k WHERE k.application_id = v_app
        ORDER BY k.attempt_id LIMIT p_rows);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows > 0 THEN
        RETURN v_rows;
    END IF;
    DELETE FROM @schema@.hook_deliveries t WHERE t.delivery_id IN (
        SELECT d.delivery_id FROM @schema@.hook_endpoints e
        JOIN @schema@.hook_deliveries d ON d.endpoint_id = e.endpoint_id
        WHERE e.application_id = v_app LIMIT p_rows);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows > 0 THEN
        RETURN v_rows;
    END IF;
    DELETE FROM @schema@.hook_messages t WHERE t.application_id = v_app AND t.message_id IN (
        SELECT m.message_id FROM @schema@.hook_messages m WHERE m.application_id = v_app
        ORDER BY m.message_id LIMIT p_rows);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows > 0 THEN
        RETURN v_rows;
    END IF;
    v_ids := ARRAY(SELECT e.endpoint_id FROM @schema@.hook_endpoints e
        WHERE e.application_id = v_app ORDER BY e.endpoint_id LIMIT p_rows);
    IF v_ids <> '{}' THEN
        -- A row that was created while its application was deleted still exists here.
        DELETE FROM @schema@.hook_states t WHERE t.endpoint_id = ANY (v_ids);
        DELETE FROM @schema@.hook_endpoints t WHERE t.endpoint_id = ANY (v_ids);
        RETURN cardinality(v_ids);
    END IF;
    DELETE FROM @schema@.hook_applications a WHERE a.application_id = v_app;
    RETURN 1;
END
$$;
