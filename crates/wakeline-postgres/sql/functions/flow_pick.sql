-- What a turn of a lane would take along: the visible messages, the first 1,000 of them, at most
-- about 4 MB but at least one. Returns the place of the last one; NULL if none is visible.
-- Called by: flow_claim_turns, flow_born, under the lane's lock. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_pick(p_lane bigint, p_now timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT max(x.seq) FROM (
            SELECT m.seq, row_number() OVER w AS n, sum(octet_length(m.payload)) OVER w AS bytes
            FROM (
                SELECT f.seq, f.payload FROM @schema@.flow_messages f
                WHERE f.lane_id = p_lane AND f.visible_at <= p_now
                ORDER BY f.seq LIMIT 1000
            ) m
            WINDOW w AS (ORDER BY m.seq)
        ) x
        WHERE x.n = 1 OR x.bytes <= 4194304);
END
$$;
