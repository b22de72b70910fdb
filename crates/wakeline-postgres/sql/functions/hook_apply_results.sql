-- Applies the results of ended attempts to their endpoints: breaker, failing, throttling,
-- disabling, and when they are due again. By attempt, in order: p_commands, the number of its
-- command; p_endpoints; p_dues, when its delivery is due again, if it is. p_loud: endpoints of
-- attempts that did not simply succeed. By command: p_samples (1 success, 2 failure), p_throttles,
-- p_gone: see hook_settle. An endpoint that worked before and works now is not even locked, unless
-- something waits for the end of its leases. o_disabled: by attempt, 2 if it disabled its endpoint
-- because that is gone, 3 because it only failed. o_opened: by attempt, whether it opened its
-- endpoint's breaker. Lock order: states by id.

CREATE OR REPLACE FUNCTION @schema@.hook_apply_results(
    p_commands integer[], p_endpoints uuid[], p_dues timestamptz[], p_loud uuid[],
    p_samples smallint[], p_throttles bigint[], p_gone boolean[], p_now timestamptz,
    OUT o_disabled smallint[], OUT o_opened boolean[])
LANGUAGE plpgsql AS $$
DECLARE
    s record;
    n record;
    v_paused boolean;
    v_due timestamptz;
BEGIN
    o_disabled := array_fill(NULL::smallint, ARRAY[cardinality(p_endpoints)]);
    o_opened := array_fill(false, ARRAY[cardinality(p_endpoints)]);
    FOR s IN
        SELECT k.*, e.breaker_failures, e.breaker_open_us, e.breaker_probes, e.disable_after_us,
            e.deleted_at
        FROM @schema@.hook_states k
        CROSS JOIN LATERAL (
            SELECT e.* FROM @schema@.hook_endpoints e
            WHERE e.endpoint_id = k.endpoint_id OFFSET 0) e
        WHERE k.endpoint_id = ANY (p_endpoints) AND (
            k.held = 1 OR k.failures > 0 OR k.open_until IS NOT NULL OR k.failing_since IS NOT NULL
            OR k.endpoint_id = ANY (p_loud))
        ORDER BY k.endpoint_id
        FOR NO KEY UPDATE OF k
    LOOP
        v_due := NULL;
        FOR n IN
            SELECT x.ord, x.due, p_samples[x.command] AS sample,
                p_throttles[x.command] AS throttle, p_gone[x.command] AS gone
            FROM unnest(p_commands, p_endpoints, p_dues) WITH ORDINALITY
                AS x (command, id, due, ord)
            WHERE x.id = s.endpoint_id ORDER BY x.ord
        LOOP
            v_due := least(v_due, n.due);
            CONTINUE WHEN s.deleted_at IS NOT NULL;
            v_paused := s.breaker_probes IS NOT NULL AND coalesce(s.open_until > p_now, false);
            IF n.throttle IS NOT NULL THEN
                s.throttled_until := greatest(s.throttled_until,
                    p_now + n.throttle * interval '1 microsecond');
            END IF;
            IF n.gone OR n.sample = 2 AND NOT v_paused AND s.failing_since
                + s.disable_after_us * interval '1 microsecond' <= p_now
            THEN
                IF s.disabled IS NULL THEN
                    s.disabled := CASE WHEN n.gone THEN 2 ELSE 3 END;
                    o_disabled[n.ord] := s.disabled;
                END IF;
            END IF;
            IF n.sample = 1 THEN
                s.failing_since := NULL;
            ELSIF n.sample = 2 AND NOT v_paused THEN
                s.failing_since := coalesce(s.failing_since, p_now);
            END IF;
            CONTINUE WHEN v_paused OR s.breaker_probes IS NULL OR n.sample = 0;
            IF s.open_until IS NULL THEN
                s.failures := CASE WHEN n.sample = 1 THEN 0 ELSE s.failures + 1 END;
                IF s.failures >= s.breaker_failures AND n.sample = 2 THEN
                    s.open_until := p_now + s.breaker_open_us * interval '1 microsecond';
                    s.successes := 0; o_opened[n.ord] := s.open_until > p_now;
                END IF;
            ELSIF n.sample = 2 THEN
                s.open_until := p_now + s.breaker_open_us * interval '1 microsecond';
                s.successes := 0; o_opened[n.ord] := s.open_until > p_now;
            ELSE
                s.successes := s.successes + 1;
                IF s.successes >= s.breaker_probes THEN
                    s.open_until := NULL; s.failures := 0; s.successes := 0;
                END IF;
            END IF;
        END LOOP;
        IF s.held = 1 THEN
            v_due := least(v_due, coalesce(s.held_since, p_now));
        END IF;
        UPDATE @schema@.hook_states k SET due_at = least(k.due_at, v_due),
            held = CASE WHEN s.held = 1 THEN 0 ELSE s.held END,
            fresh = k.fresh OR s.held = 1,
            disabled = s.disabled, throttled_until = s.throttled_until, failures = s.failures,
            open_until = s.open_until, successes = s.successes, failing_since = s.failing_since
        WHERE k.endpoint_id = s.endpoint_id;
    END LOOP;
END
$$;
