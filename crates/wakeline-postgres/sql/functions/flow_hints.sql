-- Returns what a write made available and did not lease: per command and capability the earliest
-- time. p_before: the lanes before the write. A leased lane whose capability has changed is
-- returned as well, because other dispatchers now wait for the end of its lease. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_hints(
    p_before @schema@.flow_lanes[], p_lanes @schema@.flow_lanes[], p_fresh integer[],
    p_fresh_commands integer[], p_now timestamptz)
RETURNS TABLE (o_command integer, o_due_us bigint, o_what text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_fresh = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT x.command,
        greatest(ceil(extract(epoch FROM min(x.due_at) - p_now) * 1000000), 0)::bigint,
        (SELECT c.name FROM @schema@.flow_capabilities c WHERE c.capability_id = x.capability_id)
    FROM (
        SELECT f.command, (p_lanes[f.i]).capability_id, (p_lanes[f.i]).due_at
        FROM unnest(p_fresh, p_fresh_commands) AS f (i, command)
        WHERE (p_lanes[f.i]).due_at IS NOT NULL AND ((p_lanes[f.i]).lease_token IS NULL
            OR ((p_lanes[f.i]).lease_token = (p_before[f.i]).lease_token
                AND (p_lanes[f.i]).capability_id IS DISTINCT FROM (p_before[f.i]).capability_id))
    ) x
    GROUP BY x.command, x.capability_id;
END
$$;
