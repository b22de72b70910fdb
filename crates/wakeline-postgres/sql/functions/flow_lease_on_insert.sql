-- Leases turns at once that have just become available, if a request for turns was passed with the
-- write: see flow_claim_result. It changes only o_lanes, the copy of p_lanes; flow_save writes them.
-- p_fresh: the lanes that the write stored a message in, as indexes of p_lanes, in the order of
-- flow_changed_lanes; p_fresh_commands: for each of them the number of the command. Runs under the
-- lanes' locks, before flow_save.

CREATE OR REPLACE FUNCTION @schema@.flow_lease_on_insert(
    p_lanes @schema@.flow_lanes[], p_fresh integer[], p_fresh_commands integer[],
    p_requests jsonb, p_ok boolean[], p_now timestamptz,
    OUT o_lanes @schema@.flow_lanes[], OUT o_ids bigint[], OUT o_commands integer[],
    OUT o_requests integer[])
LANGUAGE plpgsql AS $$
DECLARE
    v_claim record;
BEGIN
    o_lanes := p_lanes; o_ids := '{}'; o_commands := '{}'; o_requests := '{}';
    IF p_fresh = '{}' OR p_requests = '[]' THEN
        RETURN;
    END IF;
    SELECT x.* INTO v_claim FROM (
        SELECT array_agg((p_lanes[f.i]).lane_id) AS ids,
            array_agg((p_lanes[f.i]).capability_id) AS capabilities,
            array_agg((p_lanes[f.i]).due_at) AS due,
            array_agg((p_lanes[f.i]).lease_token IS NULL) AS free
        FROM unnest(p_fresh) AS f (i)
    ) a CROSS JOIN LATERAL @schema@.flow_claim_result(a.ids, a.capabilities, a.due, a.free,
        p_fresh_commands, p_requests, p_ok, p_now) AS x;
    o_ids := v_claim.o_ids;
    o_commands := v_claim.o_commands;
    o_requests := v_claim.o_requests;
    FOR j IN 1 .. cardinality(p_fresh) LOOP
        CONTINUE WHEN NOT v_claim.o_given[j];
        o_lanes[p_fresh[j]].lease_token := v_claim.o_keys[j];
        o_lanes[p_fresh[j]].lease_until := v_claim.o_untils[j];
        o_lanes[p_fresh[j]].due_at := v_claim.o_untils[j];
        o_lanes[p_fresh[j]].lease_at := p_now;
        o_lanes[p_fresh[j]].lease_seq := v_claim.o_seqs[j];
    END LOOP;
END
$$;
