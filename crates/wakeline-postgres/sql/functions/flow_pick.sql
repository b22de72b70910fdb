-- Returns what a turn of a lane takes: the visible messages, at most the first 1,000 and about 4
-- MB, but at least one. Returns the position of the last one; NULL if none is visible. If more are
-- visible, messages that may begin an execution and are after that limit are moved to the front of
-- the lane first: without them no dispatcher could process the messages before them. Those in front
-- are then taken alone: an execution that continues as new carries over the messages that its turns
-- took and did not use, so each turn of a loop over a large mailbox would carry all earlier ones.
-- Runs under the lane's lock. Lock order: messages.

CREATE OR REPLACE FUNCTION @schema@.flow_pick(p_lane bigint, p_now timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    k record;
    -- The first visible message that begins nothing; only those before it are taken.
    v_other bigint;
BEGIN
    LOOP
        SELECT max(x.seq) FILTER (WHERE x.n = 1 OR x.bytes <= 4194304) AS last,
            max(x.seq) AS seen, count(*) AS len
        INTO k
        FROM (
            SELECT m.seq, row_number() OVER w AS n, sum(octet_length(m.payload)) OVER w AS bytes
            FROM (
                SELECT f.seq, f.payload FROM @schema@.flow_messages f
                WHERE f.lane_id = p_lane AND f.visible_at <= p_now
                    AND f.seq < coalesce(v_other, 9223372036854775807)
                ORDER BY f.seq LIMIT 1000
            ) m
            WINDOW w AS (ORDER BY m.seq)
        ) x;
        -- Most lanes hold few messages: then no other statement is needed.
        EXIT WHEN v_other IS NOT NULL OR k.last IS NULL OR (k.len < 1000 AND k.last = k.seen);
        EXIT WHEN NOT EXISTS (
            SELECT FROM @schema@.flow_messages f
            WHERE f.lane_id = p_lane AND f.visible_at <= p_now AND f.seq > k.last);
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
        v_other := coalesce((
            SELECT f.seq FROM @schema@.flow_messages f
            WHERE f.lane_id = p_lane AND f.visible_at <= p_now AND NOT f.starts
            ORDER BY f.seq LIMIT 1), 9223372036854775807);
        EXIT WHEN NOT EXISTS (
            SELECT FROM @schema@.flow_messages f
            WHERE f.lane_id = p_lane AND f.starts AND f.visible_at <= p_now AND f.seq < v_other);
    END LOOP;
    RETURN k.last;
END
$$;
