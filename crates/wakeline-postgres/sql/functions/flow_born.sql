-- Leases turns that a write has made available to the dispatchers that came along with it: see
-- flow_grant. The lanes are not written: see flow_save. p_fresh: indexes of lanes in p_lanes that
-- got something, in order; p_fresh_commands: by which command each did.
-- Called by: flow_enqueue, flow_commit, flow_complete, under the lanes' locks, before flow_save.

CREATE OR REPLACE FUNCTION @schema@.flow_born(
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
    ) f CROSS JOIN LATERAL @schema@.flow_grant(f.ids, f.capabilities, f.due, f.free,
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
