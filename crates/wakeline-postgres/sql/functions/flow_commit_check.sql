-- Decides for each turn whether it can be committed. o_codes: 0 yes, 1 its lease has ended, 2 its
-- events do not follow the last one (o_lasts), 3 the instance does not exist and there is no birth.
-- o_lanes: the index of each command's lane in p_lanes. Runs under the lanes' locks. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_commit_check(
    p_commands jsonb, p_lanes @schema@.flow_lanes[], p_now timestamptz,
    OUT o_codes smallint[], OUT o_lasts bigint[], OUT o_lanes integer[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_ids bigint[] := ARRAY(SELECT x.lane_id FROM unnest(p_lanes) AS x);
BEGIN
    SELECT array_agg(CASE
            WHEN l.lease_token IS DISTINCT FROM c.key OR l.lease_until <= p_now THEN 1
            WHEN l.phase = 0 AND c.name IS NULL
                AND (c.events IS NOT NULL OR c.statuses > 0 OR c.kv OR c.ending IS NOT NULL) THEN 3
            WHEN c.events IS NOT NULL AND c.first <> coalesce(e.last_event, 0) + 1 THEN 2
            ELSE 0 END::smallint ORDER BY c.ord),
        array_agg(coalesce(e.last_event, 0) ORDER BY c.ord),
        array_agg(array_position(v_ids, c.lane) ORDER BY c.ord)
    INTO o_codes, o_lasts, o_lanes
    FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, key uuid, execution bigint,
            name text, first bigint, events integer, statuses integer, kv boolean, ending text))
        WITH ORDINALITY
        AS c (lane, key, execution, name, first, events, statuses, kv, ending, ord)
    LEFT JOIN LATERAL (
        SELECT (p_lanes[array_position(v_ids, c.lane)]).*) l ON true
    LEFT JOIN @schema@.flow_executions e
        ON e.lane_id = c.lane AND e.execution = c.execution;
END
$$;
