-- Leases turns that a write has made available to the requests of dispatchers that were passed with
-- it: see flow_claim_result. It does not write the lanes: see flow_save. p_fresh: indexes of lanes in
-- p_lanes that got something, in order; p_fresh_commands: the number of the command for each. Runs
-- under the lanes' locks, before flow_save.

CREATE OR REPLACE FUNCTION @schema@.flow_leased_on_insert(
    p_lanes @schema@.flow_lanes[], p_fresh integer[], p_fresh_commands integer[],
    p_requests jsonb, p_ok boolean[], p_now timestamptz,
    OUT o_lanes @schema@.flow_lanes[], OUT o_ids bigint[], OUT o_commands integer[],
    OUT o_requests integer[])
LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    o_lanes := p_lanes; o_ids := '{}'; o_commands := '{}'; o_requests := '{}';
    IF p_fresh = '{}' OR p_requests = '[]' THEN
        RETURN;
    END IF;
    SELECT x.* INTO g FROM (
        SELECT array_agg((p_lanes[f.i]).lane_id) AS ids,
            array_agg((p_lanes[f.i]).capability_id) AS capabilities,
            array_agg((p_lanes[f.i]).due_at) AS due,
            array_agg((p_lanes[f.i]).lease_token IS NULL) AS free
        FROM unnest(p_fresh) AS f (i)
    ) f CROSS JOIN LATERAL @schema@.flow_claim_result(f.ids, f.capabilities, f.due, f.free,
        p_fresh_commands, p_requests, p_ok, p_now) AS x;
    o_ids := g.o_ids; o_commands := g.o_commands; o_requests := g.o_requests;
    FOR j IN 1 .. cardinality(p_fresh) LOOP
        CONTINUE WHEN NOT g.o_given[j];
        o_lanes[p_fresh[j]].lease_token := g.o_keys[j];
        o_lanes[p_fresh[j]].lease_until := g.o_untils[j];
        o_lanes[p_fresh[j]].due_at := g.o_untils[j];
        o_lanes[p_fresh[j]].lease_at := p_now;
        o_lanes[p_fresh[j]].lease_seq := g.o_seqs[j];
    END LOOP;
END
$$;
