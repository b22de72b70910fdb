-- What a turn of a lane takes along: the visible messages, the first 1,000 of them, at most about
-- 4 MB but at least one. Returns the place of the last one; NULL if none is visible. Messages that
-- may begin an execution and lie behind that cut are moved to the front of the lane first: without
-- them nobody could take the messages before them.
-- Called by: flow_grant, flow_pick_all, under the lane's lock. Lock order: messages.

CREATE OR REPLACE FUNCTION @schema@.flow_pick(p_lane bigint, p_now timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    k record;
BEGIN
    FOR v_pass IN 1 .. 2 LOOP
        SELECT max(x.seq) FILTER (WHERE x.n = 1 OR x.bytes <= 4194304) AS last,
            max(x.seq) AS seen, count(*) AS len
        INTO k
        FROM (
            SELECT m.seq, row_number() OVER w AS n, sum(octet_length(m.payload)) OVER w AS bytes
            FROM (
                SELECT f.seq, f.payload FROM @schema@.flow_messages f
                WHERE f.lane_id = p_lane AND f.visible_at <= p_now
                ORDER BY f.seq LIMIT 1000
            ) m
            WINDOW w AS (ORDER BY m.seq)
        ) x;
        EXIT WHEN v_pass = 2 OR (k.len < 1000 AND k.last = k.seen) OR k.last IS NULL;
        UPDATE @schema@.flow_messages m SET seq = x.place
        FROM (
            SELECT f.seq, g.first - row_number() OVER (ORDER BY f.seq DESC) AS place
            FROM @schema@.flow_messages f
            CROSS JOIN (
                SELECT min(g.seq) AS first FROM @schema@.flow_messages g WHERE g.lane_id = p_lane
            ) g
            WHERE f.lane_id = p_lane AND f.starts AND f.seq > k.last AND f.visible_at <= p_now
        ) x
        WHERE m.lane_id = p_lane AND m.seq = x.seq;
        EXIT WHEN NOT FOUND;
    END LOOP;
    RETURN k.last;
END
$$;
