-- Returns what turns of lanes take, lane by lane in order: see flow_pick. o_empty: the lanes that
-- have no visible message, NULL if there are none. Runs under the lanes' locks. Lock order:
-- messages.

CREATE OR REPLACE FUNCTION @schema@.flow_pick_all(
    p_lanes bigint[], p_now timestamptz,
    OUT o_lanes bigint[], OUT o_seqs bigint[], OUT o_empty bigint[])
LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(array_agg(x.lane) FILTER (WHERE x.seq IS NOT NULL), '{}'),
        coalesce(array_agg(x.seq) FILTER (WHERE x.seq IS NOT NULL), '{}'),
        array_agg(x.lane) FILTER (WHERE x.seq IS NULL)
    INTO o_lanes, o_seqs, o_empty
    FROM (
        -- Usually there are few small messages; then all of them are taken.
        SELECT c.lane, CASE WHEN m.len <= 1000 AND m.bytes <= 4194304 THEN m.seq
            ELSE @schema@.flow_pick(c.lane, p_now) END AS seq
        FROM unnest(p_lanes) WITH ORDINALITY AS c (lane, ord)
        CROSS JOIN LATERAL (
            SELECT max(f.seq) AS seq, count(*) AS len, sum(octet_length(f.payload)) AS bytes
            FROM (
                SELECT f.seq, f.payload FROM @schema@.flow_messages f
                WHERE f.lane_id = c.lane AND f.visible_at <= p_now
                ORDER BY f.seq LIMIT 1001
            ) f
        ) m
        ORDER BY c.ord
    ) x;
END
$$;
