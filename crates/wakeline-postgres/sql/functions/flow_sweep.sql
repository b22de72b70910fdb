-- Returns, without claiming, the microseconds until each line has something; no row for lines that
-- have nothing. p_lines: an array of objects, with caps (turns: numbers, null for any), or with
-- tags and names (work: numbers, null for any) and perhaps owner, or with instance (an outcome).
-- Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_sweep(p_lines jsonb)
RETURNS TABLE (line integer, due_us bigint)
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_due timestamptz;
    v_routes bigint[];
    n record;
BEGIN
    FOR n IN SELECT x.x, x.ord FROM jsonb_array_elements(p_lines) WITH ORDINALITY AS x (x, ord) LOOP
        IF n.x ? 'caps' THEN
            v_due := @schema@.flow_turns_due(@schema@.flow_capabilities_of(n.x->'caps'));
        ELSIF n.x ? 'tags' THEN
            v_routes := @schema@.flow_routes_of(n.x->'tags', n.x->'names');
            v_due := CASE WHEN EXISTS (SELECT FROM @schema@.flow_work_ready(
                    v_routes, n.x->>'owner', -1, 1, v_now)) THEN v_now
                ELSE @schema@.flow_work_later(v_routes, n.x->>'owner', v_now) END;
        ELSE
            SELECT v_now INTO v_due FROM @schema@.flow_lanes l
            WHERE l.instance = n.x->>'instance' AND l.phase = 2;
        END IF;
        IF v_due IS NOT NULL THEN
            line := n.ord;
            due_us := ceil(greatest(extract(epoch FROM v_due - v_now), 0) * 1000000)::bigint;
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
