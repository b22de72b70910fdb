-- Returns when work of a line that is leased, delayed, or of another owner's session becomes
-- available: the earliest time; NULL if there is none. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_work_later(
    p_routes bigint[], p_owner text, p_now timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_least timestamptz;
    w record;
BEGIN
    SELECT min(f.due_at) INTO v_least FROM unnest(p_routes) AS t (route)
    CROSS JOIN LATERAL (
        SELECT f.due_at FROM @schema@.flow_work f
        WHERE f.route = t.route AND f.state = 1 AND f.session IS NULL
        ORDER BY f.due_at LIMIT 1) f;
    IF p_owner IS NULL THEN
        RETURN v_least;
    END IF;
    -- Delayed work of sessions is available only after another owner's session has ended. It is
    -- read in order of time, so that the scan ends where nothing sooner can follow. The session is
    -- looked up by a subquery here and below because a join may be planned the other way round, or
    -- over all sessions, for each work.
    FOR i IN 1 .. cardinality(p_routes) LOOP
        FOR w IN
            SELECT f.due_at, (
                SELECT s.owned_until FROM @schema@.flow_sessions s
                WHERE s.session = f.session AND s.owner <> p_owner AND s.owned_until > p_now
            ) AS owned_until
            FROM @schema@.flow_work f
            WHERE f.route = p_routes[i] AND f.state = 1 AND f.session IS NOT NULL
            ORDER BY f.due_at
        LOOP
            EXIT WHEN w.due_at >= v_least;
            v_least := least(v_least, greatest(w.due_at, w.owned_until));
        END LOOP;
    END LOOP;
    SELECT least(v_least, min((
        SELECT s.owned_until FROM @schema@.flow_sessions s
        WHERE s.session = f.session AND s.owner <> p_owner AND s.owned_until > p_now)))
    INTO v_least
    FROM unnest(p_routes) AS t (route)
    CROSS JOIN LATERAL (
        SELECT f.session FROM @schema@.flow_work f
        WHERE f.route = t.route AND f.state = 0 AND f.session IS NOT NULL
        OFFSET 0) f;
    RETURN v_least;
END
$$;
