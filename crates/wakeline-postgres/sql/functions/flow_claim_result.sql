-- Leases turns that a write has made available to the requests of dispatchers that were passed with
-- it, if no older turn that they may take is available. It only decides; the caller writes the
-- lanes, so that the table still shows what was available before the write. p_lanes: those that got
-- something, in order; p_free: whether they may be leased; p_commands: the number of the first
-- command for each. p_requests: an array of objects. c: the number of the command; r: the request's
-- index within it; lease: microseconds; caps: numbers, null for any. o_given, o_keys, o_untils,
-- o_seqs: by lane. Runs under the lanes' locks. Writes only positions of messages: see flow_pick.

CREATE OR REPLACE FUNCTION @schema@.flow_claim_result(
    p_lanes bigint[], p_capabilities integer[], p_due timestamptz[], p_free boolean[],
    p_commands integer[], p_requests jsonb, p_ok boolean[], p_now timestamptz,
    OUT o_ids bigint[], OUT o_commands integer[], OUT o_requests integer[],
    OUT o_given boolean[], OUT o_keys uuid[], OUT o_untils timestamptz[], OUT o_seqs bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    r record;
    n integer := cardinality(p_lanes);
    v_from integer := 1;
    v_caps integer[];
    v_known jsonb := '0';
    v_older boolean;
    v_seq bigint;
BEGIN
    o_ids := '{}'; o_commands := '{}'; o_requests := '{}';
    o_given := array_fill(false, ARRAY[n]);
    o_keys := array_fill(NULL::uuid, ARRAY[n]);
    o_untils := array_fill(NULL::timestamptz, ARRAY[n]);
    o_seqs := array_fill(NULL::bigint, ARRAY[n]);
    IF n = 0 OR p_requests = '[]' THEN
        RETURN;
    END IF;
    FOR r IN SELECT x.* FROM jsonb_to_recordset(p_requests)
        AS x (c integer, r integer, key uuid, lease bigint, caps jsonb)
    LOOP
        CONTINUE WHEN NOT p_ok[r.c];
        IF v_known IS DISTINCT FROM r.caps THEN
            v_known := r.caps;
            v_caps := @schema@.flow_capabilities_of(r.caps);
            v_older := EXISTS (
                SELECT FROM unnest(v_caps) AS x (capability_id)
                CROSS JOIN LATERAL (
                    SELECT FROM @schema@.flow_lanes f
                    WHERE f.capability_id = x.capability_id AND f.due_at <= p_now
                    LIMIT 1) f);
        END IF;
        CONTINUE WHEN v_older;
        WHILE v_from <= n AND (o_given[v_from] OR NOT p_free[v_from]) LOOP
            v_from := v_from + 1;
        END LOOP;
        FOR i IN v_from .. n LOOP
            CONTINUE WHEN NOT p_free[i] OR o_given[i] OR p_due[i] > p_now
                OR p_capabilities[i] <> ALL (v_caps);
            -- A lane of an earlier command is older. A lane of a later command does not exist yet.
            EXIT WHEN p_commands[i] <> r.c;
            v_seq := @schema@.flow_pick(p_lanes[i], p_now);
            CONTINUE WHEN v_seq IS NULL;
            o_given[i] := true; o_keys[i] := r.key; o_seqs[i] := v_seq;
            o_untils[i] := p_now + r.lease * interval '1 microsecond';
            o_ids := o_ids || p_lanes[i]; o_commands := o_commands || r.c;
            o_requests := o_requests || r.r;
            EXIT;
        END LOOP;
    END LOOP;
END
$$;
