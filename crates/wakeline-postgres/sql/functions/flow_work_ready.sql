-- Available work that a line may take, in order of insertion, after p_after: without a session,
-- and, if there is an owner, of sessions that are the owner's or nobody's. Locks nothing.
-- Called by: claims and born leases of work. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_work_ready(
    p_tags integer[], p_owner text, p_after bigint, p_len integer, p_now timestamptz)
RETURNS TABLE (o_work bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_owner IS NULL THEN
        RETURN QUERY
        SELECT f.work_id FROM unnest(p_tags) AS t (tag_id)
        CROSS JOIN LATERAL (
            SELECT f.work_id FROM @schema@.flow_work f
            WHERE f.tag_id = t.tag_id AND f.state = 0 AND f.session IS NULL AND f.work_id > p_after
            ORDER BY f.work_id LIMIT p_len) f
        ORDER BY f.work_id LIMIT p_len;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT f.work_id FROM unnest(p_tags) AS t (tag_id)
    CROSS JOIN LATERAL (
        (SELECT f.work_id FROM @schema@.flow_work f
        WHERE f.tag_id = t.tag_id AND f.state = 0 AND f.session IS NULL AND f.work_id > p_after
        ORDER BY f.work_id LIMIT p_len)
        UNION ALL
        (SELECT f.work_id FROM @schema@.flow_work f
        WHERE f.tag_id = t.tag_id AND f.state = 0 AND f.session IS NOT NULL AND f.work_id > p_after
            -- Not an anti-join, which may be planned to walk all sessions for each work.
            AND (SELECT true FROM @schema@.flow_sessions s
                WHERE s.session = f.session AND s.owner <> p_owner AND s.owned_until > p_now)
                IS NULL
        ORDER BY f.work_id LIMIT p_len)
    ) f
    ORDER BY f.work_id LIMIT p_len;
END
$$;
