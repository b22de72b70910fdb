-- Starts new instances; faster than flow_enqueue, and usable for calls that only start instances
-- immediately, one per command, with different names. p_capabilities: the capability of each. Rows
-- as of flow_enqueue; or one row of kind 9 if one of the lanes exists: then the general function is
-- needed, and nothing was written. New lanes are written once, in their final state. Lock order:
-- new lanes by name.

CREATE OR REPLACE FUNCTION @schema@.flow_start(
    p_instances text[], p_capabilities integer[], p_bodies bytea[], p_requests jsonb)
RETURNS TABLE (
    kind smallint, codes smallint[], command integer, due_us bigint, what text,
    ids bigint[], commands integer[], requests integer[], now_at timestamptz)
LANGUAGE plpgsql ROWS 4
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    n integer := cardinality(p_instances);
    v_now timestamptz := @schema@.clock();
    v_lanes bigint[];
    v_made bigint;
    g record;
    h record;
BEGIN
    IF EXISTS (SELECT FROM @schema@.flow_lanes l WHERE l.instance = ANY (p_instances)) THEN
        kind := 9;
        RETURN NEXT;
        RETURN;
    END IF;
    v_lanes := ARRAY(
        SELECT nextval('@schema@.flow_lanes_lane_id_seq') FROM generate_series(1, n));
    INSERT INTO @schema@.flow_messages (lane_id, seq, visible_at, starts, payload)
    SELECT x.lane, 1, v_now, true, x.body FROM unnest(v_lanes, p_bodies) AS x (lane, body);
    SELECT x.* INTO g FROM @schema@.flow_claim_result(v_lanes, p_capabilities,
        array_fill(v_now, ARRAY[n]), array_fill(true, ARRAY[n]),
        ARRAY(SELECT generate_series(1, n)), p_requests, array_fill(true, ARRAY[n]), v_now) AS x;
    INSERT INTO @schema@.flow_lanes (lane_id, instance, capability_id, due_at, next_seq,
        lease_token, lease_until, lease_at, lease_seq, started_at)
    OVERRIDING SYSTEM VALUE
    SELECT x.lane, x.instance, x.capability, coalesce(x.until, v_now), 2, x.key, x.until,
        CASE WHEN x.key IS NOT NULL THEN v_now END, x.seq, v_now
    FROM unnest(v_lanes, p_instances, p_capabilities, g.o_keys, g.o_untils, g.o_seqs)
        AS x (lane, instance, capability, key, until, seq)
    ORDER BY x.instance COLLATE "C"
    ON CONFLICT (instance) DO NOTHING;
    GET DIAGNOSTICS v_made = ROW_COUNT;
    IF v_made < n THEN
        -- Created by another transaction concurrently. The call is repeated and uses the general
        -- function.
        RAISE EXCEPTION 'a lane has come' USING ERRCODE = 'serialization_failure';
    END IF;
    kind := 0; codes := array_fill(0::smallint, ARRAY[n]);
    RETURN NEXT;
    codes := NULL;
    IF false = ANY (g.o_given) THEN
        kind := 2; due_us := 0;
        FOR h IN
            SELECT x.ord::integer, c.name FROM unnest(p_capabilities, g.o_given) WITH ORDINALITY
                AS x (capability, given, ord)
            JOIN @schema@.flow_capabilities c ON c.capability_id = x.capability
            WHERE NOT x.given
        LOOP
            command := h.ord; what := h.name;
            RETURN NEXT;
        END LOOP;
    END IF;
    IF g.o_ids <> '{}' THEN
        kind := 1; command := NULL; due_us := NULL; what := NULL;
        ids := g.o_ids; commands := g.o_commands; requests := g.o_requests; now_at := v_now;
        RETURN NEXT;
    END IF;
END
$$;
