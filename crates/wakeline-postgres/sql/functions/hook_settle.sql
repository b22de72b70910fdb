-- Writes the ends of attempts: logs them, updates their deliveries, and judges their endpoints. By
-- attempt: p_deliveries, p_keys, its lease; p_verdicts: 0 delivered, 1 retry after p_delays, 2
-- failed; p_samples: 0 no statement about the endpoint, 1 it works, 2 it does not; p_throttles: the
-- endpoint gets nothing for this time; p_gone: it is disabled; p_began, p_took, p_status,
-- p_responses, p_errors, p_urls: for the log. No two attempts of a call are of the same delivery.
-- Spans are in microseconds. Returns one row per attempt: code: 0 the lease is stale, 1 delivered,
-- 2 it will be retried, 3 failed, 4 cancelled; why its endpoint was disabled by it; the
-- microseconds until something of its endpoint may be due, if that has changed; opened: it opened
-- its endpoint's breaker. Lock order: deliveries by id, then states by id.

CREATE OR REPLACE FUNCTION @schema@.hook_settle(
    p_deliveries bigint[], p_keys uuid[], p_verdicts smallint[], p_delays bigint[],
    p_samples smallint[], p_throttles bigint[], p_gone boolean[], p_began bigint[], p_took bigint[],
    p_status integer[], p_responses bytea[], p_errors text[], p_urls text[])
RETURNS TABLE (command integer, code smallint, disabled smallint, due_us bigint, endpoint uuid,
    pull boolean, opened boolean)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    j record;
    v_now timestamptz;
    a_command integer[];
    a_state smallint[];
    a_endpoint uuid[];
    a_pull boolean[];
    a_due timestamptz[];
    v_loud uuid[];
    v_disabled smallint[];
    v_opened boolean[];
    v_ready uuid[];
BEGIN
    PERFORM FROM @schema@.hook_deliveries d WHERE d.delivery_id = ANY (p_deliveries)
    ORDER BY d.delivery_id FOR NO KEY UPDATE;
    v_now := @schema@.clock();
    -- OFFSET 0: one index probe per delivery, even if the plan was made when the tables were small.
    -- By position (ctid), because the rows are locked and do not move.
    WITH live AS (
        SELECT x.*, d.place, d.endpoint_id, d.message_id, d.manual, d.cancelled, d.attempts,
            d.back_state, d.back_behind, d.back_due, d.due_at, e.application_id, e.pull
        FROM unnest(p_deliveries, p_keys, p_verdicts, p_delays, p_samples, p_throttles, p_gone,
            p_began, p_took, p_status, p_responses, p_errors, p_urls) WITH ORDINALITY
            AS x (id, key, verdict, delay, sample, throttle, gone, began, took, status, response,
                error, url, ord)
        CROSS JOIN LATERAL (
            SELECT d.*, d.ctid AS place FROM @schema@.hook_deliveries d
            WHERE d.delivery_id = x.id OFFSET 0) d
        CROSS JOIN LATERAL (
            SELECT e.application_id, e.pull FROM @schema@.hook_endpoints e
            WHERE e.endpoint_id = d.endpoint_id OFFSET 0) e
        WHERE d.state = 1 AND d.lease_key = x.key AND d.lease_until > v_now
    ), logged AS (
        INSERT INTO @schema@.hook_attempts (application_id, attempt_id, endpoint_id, message_id,
            attempt_no, outcome, manual, began_at, took_us, status, response, error, url)
        SELECT l.application_id, l.key, l.endpoint_id, l.message_id, l.attempts + 1,
            CASE l.verdict WHEN 0 THEN 1 ELSE 2 END, l.manual,
            v_now - l.began * interval '1 microsecond', l.took, l.status, l.response, l.error, l.url
        FROM live l
        ON CONFLICT DO NOTHING
    ), ended AS (
        UPDATE @schema@.hook_deliveries d SET
            state = CASE WHEN l.cancelled THEN 4 WHEN l.verdict = 0 THEN 2
                WHEN l.manual AND (l.verdict = 2 OR l.back_state = 0) THEN l.back_state
                WHEN l.verdict = 2 THEN 3 ELSE 0 END,
            class = CASE WHEN l.manual AND l.back_behind THEN 2 ELSE 1 END,
            due_at = CASE WHEN l.verdict = 0 THEN l.due_at
                WHEN l.manual AND (l.verdict = 2 OR l.back_state = 0)
                THEN coalesce(l.back_due, l.due_at)
                WHEN l.verdict = 1 THEN v_now + l.delay * interval '1 microsecond'
                ELSE l.due_at END,
            manual = false, cancelled = false, attempts = l.attempts + 1,
            scheduled = d.scheduled + CASE WHEN l.manual THEN 0 ELSE 1 END,
            attempted_at = d.lease_at, lease_key = NULL, lease_at = NULL, lease_until = NULL,
            back_state = NULL, back_behind = NULL, back_due = NULL, updated_at = v_now
        FROM live l
        WHERE d.ctid = l.place
        RETURNING l.ord, d.state, d.endpoint_id, l.pull, l.sample, l.throttle, l.gone,
            CASE WHEN d.state = 0 THEN d.due_at END AS due_at
    )
    SELECT array_agg(x.ord), array_agg(x.state), array_agg(x.endpoint_id), array_agg(x.pull),
        array_agg(x.due_at), array_agg(x.endpoint_id) FILTER (WHERE x.due_at IS NOT NULL
            OR x.sample = 2 OR x.throttle IS NOT NULL OR x.gone)
    INTO a_command, a_state, a_endpoint, a_pull, a_due, v_loud
    FROM (SELECT e.* FROM ended e ORDER BY e.ord) x;
    IF a_command IS NULL THEN
        RETURN;
    END IF;
    j := @schema@.hook_apply_results(a_command, a_endpoint, a_due, v_loud, p_samples, p_throttles, p_gone,
        v_now);
    v_disabled := j.o_disabled; v_opened := j.o_opened;
    SELECT array_agg(s.endpoint_id) INTO v_ready FROM @schema@.hook_states s
    WHERE s.endpoint_id = ANY (a_endpoint) AND s.due_at <= v_now AND s.disabled IS NULL;
    RETURN QUERY
    SELECT x.command, CASE x.state WHEN 0 THEN 2 WHEN 2 THEN 1 ELSE x.state END::smallint,
        x.disabled,
        CASE WHEN x.endpoint = ANY (v_ready) THEN 0 ELSE
            @schema@.hook_until(x.due_at, v_now) END,
        x.endpoint, x.pull, x.opened
    FROM unnest(a_command, a_state, a_endpoint, a_pull, a_due, v_disabled, v_opened)
        AS x (command, state, endpoint, pull, due_at, disabled, opened);
END
$$;
