-- Returns when the next turn of a line is due: the earliest time of its lanes; NULL if there is
-- none. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_turns_due(p_caps integer[]) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT min(f.due_at) FROM unnest(p_caps) AS x (capability_id)
        CROSS JOIN LATERAL (
            SELECT f.due_at FROM @schema@.flow_lanes f
            WHERE f.capability_id = x.capability_id AND f.due_at IS NOT NULL
            ORDER BY f.due_at LIMIT 1) f);
END
$$;
