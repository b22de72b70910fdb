-- Cancels deliveries: waiting ones at once, those in flight when their attempts end. Returns those
-- that it changed. p_ids: locked by the caller. Lock order: takes no other lock.

CREATE OR REPLACE FUNCTION @schema@.hook_give_up(p_ids bigint[], p_now timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_changed bigint[];
BEGIN
    WITH given AS (
        UPDATE @schema@.hook_deliveries d SET state = CASE d.state WHEN 0 THEN 4 ELSE 1 END,
            cancelled = d.state = 1, manual = d.manual AND d.state = 1, updated_at = p_now
        WHERE d.delivery_id = ANY (p_ids) AND (d.state = 0 OR d.state = 1 AND NOT d.cancelled)
        RETURNING d.delivery_id
    )
    SELECT array_agg(g.delivery_id) INTO v_changed FROM given g;
    RETURN v_changed;
END
$$;
