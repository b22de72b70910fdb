-- When the work of a line that is out, delayed, or of another owner's session becomes available:
-- the earliest time; NULL if there is none.
-- Called by: flow_claim_work_line, flow_sweep. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_work_later(
    p_tags integer[], p_owner text, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_least timestamptz;
BEGIN
    SELECT min(f.due_at) INTO v_least FROM unnest(p_tags) AS t (tag_id)
    CROSS JOIN LATERAL (
        SELECT f.due_at FROM @schema@.flow_work f
        WHERE f.tag_id = t.tag_id AND f.state = 1 AND f.session IS NULL
        ORDER BY f.due_at LIMIT 1) f;
    IF p_owner IS NULL THEN
        RETURN v_least;
    END IF;
    -- With sessions: not before another owner's session ends.
    SELECT least(v_least, min(greatest(f.due_at, s.owned_until))) INTO v_least
    FROM unnest(p_tags) AS t (tag_id)
    JOIN @schema@.flow_work f
        ON f.tag_id = t.tag_id AND f.state = 1 AND f.session IS NOT NULL
    LEFT JOIN @schema@.flow_sessions s
        ON s.session = f.session AND s.owner <> p_owner AND s.owned_until > p_now;
    SELECT least(v_least, min(s.owned_until)) INTO v_least
    FROM unnest(p_tags) AS t (tag_id)
    JOIN @schema@.flow_work f
        ON f.tag_id = t.tag_id AND f.state = 0 AND f.session IS NOT NULL
    JOIN @schema@.flow_sessions s
        ON s.session = f.session AND s.owner <> p_owner AND s.owned_until > p_now;
    RETURN v_least;
END
$$;
