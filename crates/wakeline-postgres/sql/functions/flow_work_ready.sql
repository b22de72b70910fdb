-- Returns available work that a line may take, in order of insertion, after p_after: work without a
-- session, and, if there is an owner, of sessions that are the owner's or have none. It locks
-- nothing. A single route is compared as a range: with an equality, the order by work_id alone
-- would be sufficient, and the primary key would be scanned over all work that the line may not
-- take. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_work_ready(
    p_routes bigint[], p_owner text, p_after bigint, p_len integer, p_now timestamptz)
RETURNS TABLE (o_work bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_owner IS NULL THEN
        RETURN QUERY
        SELECT f.work_id FROM unnest(p_routes) AS t (route)
        CROSS JOIN LATERAL (
            SELECT f.work_id FROM @schema@.flow_work f
            WHERE (f.route, f.work_id) > (t.route, p_after) AND f.route <= t.route AND f.state = 0
                AND f.session IS NULL
            ORDER BY f.route, f.work_id LIMIT p_len) f
        ORDER BY f.work_id LIMIT p_len;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT f.work_id FROM unnest(p_routes) AS t (route)
    CROSS JOIN LATERAL (
        (SELECT f.work_id FROM @schema@.flow_work f
        WHERE (f.route, f.work_id) > (t.route, p_after) AND f.route <= t.route AND f.state = 0
            AND f.session IS NULL
        ORDER BY f.route, f.work_id LIMIT p_len)
        UNION ALL
        (SELECT f.work_id FROM @schema@.flow_work f
        WHERE (f.route, f.work_id) > (t.route, p_after) AND f.route <= t.route AND f.state = 0
            AND f.session IS NOT NULL
            -- Not an anti-join, which may be planned to scan all sessions for each work.
            AND (SELECT true FROM @schema@.flow_sessions s
                WHERE s.session = f.session AND s.owner <> p_owner AND s.owned_until > p_now)
                IS NULL
        ORDER BY f.route, f.work_id LIMIT p_len)
    ) f
    ORDER BY f.work_id LIMIT p_len;
END
$$;
