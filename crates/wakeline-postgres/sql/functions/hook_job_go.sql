-- Goes on with a job, whose row the caller holds, on at most p_rows deliveries or messages; notes its
-- place. Returns how many it looked at, and the deliveries that it changed.
-- Called by: hook_chores. Lock order: the job, then deliveries by id (replay: the endpoint).

CREATE OR REPLACE FUNCTION @schema@.hook_job_go(
    p_job bigint, p_rows integer, p_now timestamptz, OUT o_seen bigint, OUT o_changed bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    j record;
    v_messages uuid[];
    v_endpoints uuid[];
    v_ids bigint[];
    v_more boolean;
BEGIN
    SELECT k.* INTO j FROM @schema@.hook_jobs k WHERE k.job_no = p_job;
    SELECT array_agg(x.message_id), array_agg(x.endpoint_id), array_agg(x.delivery_id)
    INTO v_messages, v_endpoints, v_ids
    FROM @schema@.hook_job_ahead(p_job, p_rows + 1) x;
    o_seen := coalesce(cardinality(v_messages), 0);
    v_more := o_seen > p_rows;
    o_seen := least(o_seen, p_rows);
    v_ids := v_ids[:o_seen];
    IF j.kind = 1 THEN
        o_changed := @schema@.hook_replay(j.endpoint_id, v_messages[:o_seen], p_now);
    ELSE
        PERFORM FROM @schema@.hook_deliveries d WHERE d.delivery_id = ANY (v_ids)
        ORDER BY d.delivery_id FOR NO KEY UPDATE;
        IF j.states <> '{}' THEN
            SELECT array_agg(d.delivery_id) INTO v_ids FROM @schema@.hook_deliveries d
            JOIN @schema@.hook_endpoints e ON e.endpoint_id = d.endpoint_id
            JOIN @schema@.hook_states s ON s.endpoint_id = d.endpoint_id
            WHERE d.delivery_id = ANY (v_ids)
                AND @schema@.hook_delivery_state(d.state, d.attempts, d.due_at,
                    s.disabled IS NOT NULL OR e.deleted_at IS NOT NULL,
                    @schema@.hook_gate(s.throttled_until, s.open_until, e.breaker_probes, e.rate,
                        s.rate_at), p_now) = ANY (j.states);
        END IF;
        IF j.kind = 0 THEN
            WITH back AS (
                UPDATE @schema@.hook_deliveries d SET state = 0, class = 2, scheduled = 0,
                    fifo = e.fifo_batch IS NOT NULL, due_at = p_now, updated_at = p_now
                FROM @schema@.hook_endpoints e
                JOIN @schema@.hook_states s ON s.endpoint_id = e.endpoint_id
                WHERE d.delivery_id = ANY (v_ids) AND d.state = 3
                    AND e.endpoint_id = d.endpoint_id AND e.deleted_at IS NULL
                    AND s.disabled IS NULL AND EXISTS (
                        SELECT FROM @schema@.hook_messages m
                        WHERE m.application_id = e.application_id
                            AND m.message_id = d.message_id AND m.payload IS NOT NULL)
                RETURNING d.delivery_id
            )
            SELECT array_agg(b.delivery_id) INTO o_changed FROM back b;
        ELSIF j.kind = 2 THEN
            o_changed := @schema@.hook_again(v_ids, p_now);
        ELSE
            o_changed := @schema@.hook_give_up(v_ids, p_now);
        END IF;
    END IF;
    UPDATE @schema@.hook_jobs k SET
        place_message = coalesce(v_messages[o_seen], k.place_message),
        place_endpoint = coalesce(v_endpoints[o_seen], k.place_endpoint),
        seen = k.seen + o_seen, changed = k.changed + coalesce(cardinality(o_changed), 0),
        updated_at = p_now, finished_at = CASE WHEN NOT v_more THEN p_now END
    WHERE k.job_no = p_job;
END
$$;
