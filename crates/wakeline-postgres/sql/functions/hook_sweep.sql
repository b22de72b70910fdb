-- Returns, without claiming, the microseconds until each line has something; no row for lines that
-- have nothing. p_kinds: 0 deliveries that are sent, 1 those that the owner of p_pulls fetches, 2
-- background work, 3 the first attempts of deliveries that are sent. Reads only.

CREATE OR REPLACE FUNCTION @schema@.hook_sweep(p_kinds smallint[], p_pulls uuid[])
RETURNS TABLE (line integer, due_us bigint)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_due timestamptz;
    v_first timestamptz;
    v_seen integer;
    s record;
BEGIN
    FOR n IN 1..cardinality(p_kinds) LOOP
        v_due := NULL;
        IF p_kinds[n] = 2 THEN
            v_due := @schema@.hook_background_due(v_now);
        ELSIF p_kinds[n] = 1 THEN
            SELECT @schema@.hook_seen_due(k.endpoint_id, v_now) INTO v_due
            FROM @schema@.hook_states k
            WHERE k.endpoint_id = p_pulls[n] AND k.pull AND k.due_at IS NOT NULL;
        ELSIF p_kinds[n] = 3 THEN
            v_seen := 0;
            FOR s IN
                SELECT k.endpoint_id, k.due_at, e.fifo_batch IS NOT NULL AS fifo
                FROM @schema@.hook_states k
                JOIN @schema@.hook_endpoints e ON e.endpoint_id = k.endpoint_id
                WHERE NOT k.pull AND k.fresh AND k.due_at IS NOT NULL AND k.disabled IS NULL
                ORDER BY k.due_at, k.served, k.endpoint_id LIMIT 64
            LOOP
                EXIT WHEN v_due <= s.due_at;
                v_seen := v_seen + 1;
                IF v_seen = 64 THEN
                    v_due := s.due_at;
                    EXIT;
                END IF;
                v_first := @schema@.hook_first_due(s.endpoint_id, s.fifo, true);
                CONTINUE WHEN v_first IS NULL;
                v_due := least(v_due,
                    greatest(v_first, @schema@.hook_seen_due(s.endpoint_id, v_now)));
            END LOOP;
        ELSE
            -- Due times may be early: a few are checked more closely.
            v_seen := 0;
            FOR s IN
                SELECT k.endpoint_id, k.due_at FROM @schema@.hook_states k
                WHERE NOT k.pull AND k.due_at IS NOT NULL AND k.disabled IS NULL
                ORDER BY k.due_at, k.served, k.endpoint_id LIMIT 64
            LOOP
                EXIT WHEN v_due <= s.due_at;
                v_seen := v_seen + 1;
                IF v_seen = 64 THEN
                    v_due := s.due_at;
                    EXIT;
                END IF;
                v_due := least(v_due, @schema@.hook_seen_due(s.endpoint_id, v_now));
            END LOOP;
        END IF;
        IF v_due IS NOT NULL THEN
            line := n;
            due_us := @schema@.hook_until(v_due, v_now);
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
