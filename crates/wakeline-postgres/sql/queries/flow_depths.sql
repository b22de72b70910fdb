-- Counts what waits in the whole store.
SELECT m.messages, w.total - w.leased, l.leased, w.leased, m.delayed, i.states, i.counts,
    e.executions, e.events
FROM (SELECT @schema@.clock() AS at) AS now
CROSS JOIN LATERAL (
    SELECT count(*) AS messages, count(*) FILTER (WHERE visible_at > now.at) AS delayed
    FROM @schema@.flow_messages) m
CROSS JOIN LATERAL (
    SELECT count(*) AS total,
        count(*) FILTER (WHERE state = 1 AND lease_token IS NOT NULL AND due_at > now.at) AS leased
    FROM @schema@.flow_work) w
CROSS JOIN LATERAL (
    SELECT count(*) AS leased FROM @schema@.flow_lanes WHERE lease_until > now.at) l
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(x.state), '{}') AS states, coalesce(array_agg(x.n), '{}') AS counts
    FROM (
        SELECT state, count(*) AS n FROM @schema@.flow_instances GROUP BY state
        UNION ALL
        SELECT 'pending', count(*) FROM @schema@.flow_lanes l
        WHERE l.phase = 0 AND l.started_at IS NOT NULL AND EXISTS (
            SELECT FROM @schema@.flow_messages m WHERE m.lane_id = l.lane_id AND m.starts)) x) i
CROSS JOIN LATERAL (
    SELECT count(*) AS executions, coalesce(sum(last_event), 0)::bigint AS events
    FROM @schema@.flow_executions) e
