-- Removes messages that are older than p_keep_us and whose payload is gone, after a position in the
-- order of their age, with their deliveries and attempts: about p_rows rows, and it reads as many
-- messages. A message stays if one of its deliveries waits, is in flight or has not been created
-- yet. o_next_at, o_next: the position of the next batch, NULL at the end. Lock order: messages,
-- without waiting; then rows that no other transaction writes, because a message without payload is
-- not sent again.

CREATE OR REPLACE FUNCTION @schema@.hook_expire(
    p_keep_us bigint, p_after_at timestamptz, p_after uuid, p_rows integer,
    OUT o_messages bigint, OUT o_deliveries bigint, OUT o_attempts bigint,
    OUT o_next_at timestamptz, OUT o_next uuid)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_before timestamptz := @schema@.clock() - p_keep_us * interval '1 microsecond';
    v_left bigint := p_rows;
    v_seen integer := 0;
    v_gone bigint;
    m record;
BEGIN
    o_messages := 0; o_deliveries := 0; o_attempts := 0;
    o_next_at := p_after_at; o_next := p_after;
    FOR m IN
        SELECT k.application_id, k.message_id, k.created_at, k.payload IS NULL AND NOT EXISTS (
            SELECT FROM @schema@.hook_endpoints e
            JOIN @schema@.hook_deliveries d
                ON d.endpoint_id = e.endpoint_id AND d.message_id = k.message_id
            WHERE e.application_id = k.application_id AND d.state < 2)
            AND NOT EXISTS (
                SELECT FROM @schema@.hook_fan_outs f
                WHERE f.application_id = k.application_id AND f.message_id = k.message_id) AS over
        FROM @schema@.hook_messages k
        WHERE k.created_at < v_before AND (k.created_at, k.message_id) > (p_after_at, p_after)
        ORDER BY k.created_at, k.message_id LIMIT p_rows
    LOOP
        v_seen := v_seen + 1;
        IF m.over THEN
            DELETE FROM @schema@.hook_attempts t USING (
                SELECT a.application_id, a.attempt_id FROM @schema@.hook_attempts a
                WHERE a.message_id = m.message_id AND a.application_id = m.application_id
                LIMIT v_left) x
            WHERE t.application_id = x.application_id AND t.attempt_id = x.attempt_id;
            GET DIAGNOSTICS v_gone = ROW_COUNT;
            o_attempts := o_attempts + v_gone;
            v_left := v_left - v_gone;
            DELETE FROM @schema@.hook_deliveries t WHERE t.delivery_id IN (
                SELECT d.delivery_id FROM @schema@.hook_endpoints e
                JOIN @schema@.hook_deliveries d
                    ON d.endpoint_id = e.endpoint_id AND d.message_id = m.message_id
                WHERE e.application_id = m.application_id LIMIT v_left);
            GET DIAGNOSTICS v_gone = ROW_COUNT;
            o_deliveries := o_deliveries + v_gone;
            v_left := v_left - v_gone;
            -- The next batch continues with it.
            EXIT WHEN v_left <= 0;
            DELETE FROM @schema@.hook_messages t
            WHERE t.application_id = m.application_id AND t.message_id = m.message_id;
            o_messages := o_messages + 1;
            v_left := v_left - 1;
        END IF;
        o_next_at := m.created_at; o_next := m.message_id;
    END LOOP;
    IF v_seen < p_rows AND v_left > 0 THEN
        o_next_at := NULL; o_next := NULL;
    END IF;
END
$$;
