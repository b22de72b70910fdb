-- Continues a job, whose row the caller has locked, by at most p_rows steps; records its position.
-- Returns the number of steps, and the deliveries that it changed. Lock order: the job; endpoints
-- by id, so that their order does not change meanwhile; deliveries by id.

CREATE OR REPLACE FUNCTION @schema@.hook_job_go(
    p_job bigint, p_rows integer, p_now timestamptz, OUT o_read bigint, OUT o_changed bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    j record;
    a record;
    v_ids bigint[];
BEGIN
    SELECT k.* INTO j FROM @schema@.hook_jobs k WHERE k.job_no = p_job;
    SELECT x.* INTO a FROM @schema@.hook_job_ahead(p_job, p_rows) x;
    o_read := a.o_read;
    v_ids := a.o_deliveries;
    IF j.kind = 1 THEN
        o_changed := @schema@.hook_replay(j.endpoint_id, a.o_messages, p_now);
    ELSIF v_ids <> '{}' THEN
        PERFORM FROM @schema@.hook_endpoints e WHERE e.endpoint_id = ANY (a.o_endpoints)
        ORDER BY e.endpoint_id FOR KEY SHARE;
        PERFORM FROM @schema@.hook_deliveries d WHERE d.delivery_id = ANY (v_ids)
        ORDER BY d.delivery_id FOR NO KEY UPDATE;
        IF j.states <> '{}' THEN
            SELECT array_agg(d.delivery_id) INTO v_ids FROM @schema@.hook_deliveries d
            CROSS JOIN LATERAL (SELECT e.* FROM @schema@.hook_endpoints e
                WHERE e.endpoint_id = d.endpoint_id OFFSET 0) e
            CROSS JOIN LATERAL (SELECT s.* FROM @schema@.hook_states s
                WHERE s.endpoint_id = d.endpoint_id OFFSET 0) s
            WHERE d.delivery_id = ANY (v_ids)
                AND @schema@.hook_delivery_state(d.state, d.attempts, d.due_at,
                    s.disabled IS NOT NULL OR e.deleted_at IS NOT NULL,
                    @schema@.hook_gate(s.throttled_until, s.open_until, e.breaker_probes, e.rate,
                        s.rate_at), p_now) = ANY (j.states);
        END IF;
        IF j.kind = 0 THEN
            v_ids := @schema@.hook_sendable(v_ids);
            WITH back AS (
                UPDATE @schema@.hook_deliveries d SET state = 0, class = 2, scheduled = 0,
                    fifo = (SELECT e.fifo_batch IS NOT NULL FROM @schema@.hook_endpoints e
                        WHERE e.endpoint_id = d.endpoint_id),
                    due_at = p_now, updated_at = p_now
                WHERE d.delivery_id = ANY (v_ids) AND d.state = 3
                RETURNING d.delivery_id
            )
            SELECT array_agg(b.delivery_id) INTO o_changed FROM back b;
        ELSIF j.kind = 2 THEN
            o_changed := @schema@.hook_make_due(v_ids, p_now);
        ELSE
            o_changed := @schema@.hook_give_up(v_ids, p_now);
        END IF;
    END IF;
    UPDATE @schema@.hook_jobs k SET
        place_message = a.o_place_message, place_endpoint = a.o_place_endpoint,
        seen = k.seen + CASE j.kind WHEN 1 THEN cardinality(a.o_messages)
            ELSE cardinality(a.o_deliveries) END,
        changed = k.changed + coalesce(cardinality(o_changed), 0),
        updated_at = p_now, finished_at = CASE WHEN NOT a.o_more THEN p_now END
    WHERE k.job_no = p_job;
END
$$;
