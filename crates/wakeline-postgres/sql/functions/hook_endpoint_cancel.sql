-- Cancels deliveries that wait for a deleted endpoint, at most p_rows, and records whether more may
-- wait. Returns their number. Lock order: deliveries by id.

CREATE OR REPLACE FUNCTION @schema@.hook_endpoint_cancel(
    p_endpoint uuid, p_rows integer, p_now timestamptz)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_ids bigint[] := ARRAY(
        SELECT d.delivery_id FROM @schema@.hook_deliveries d
        WHERE d.endpoint_id = p_endpoint AND d.state = 0 LIMIT p_rows);
BEGIN
    PERFORM FROM @schema@.hook_deliveries d WHERE d.delivery_id = ANY (v_ids)
    ORDER BY d.delivery_id FOR NO KEY UPDATE;
    UPDATE @schema@.hook_deliveries d SET state = 4, manual = false, updated_at = p_now
    WHERE d.delivery_id = ANY (v_ids) AND d.state = 0;
    UPDATE @schema@.hook_endpoints e SET cancelling = cardinality(v_ids) >= p_rows
    WHERE e.endpoint_id = p_endpoint AND e.cancelling <> (cardinality(v_ids) >= p_rows);
    RETURN cardinality(v_ids);
END
$$;
