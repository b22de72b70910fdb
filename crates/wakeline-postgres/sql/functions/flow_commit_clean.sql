-- Removes the messages that turns have processed: those that they took or cancelled, or, if a turn
-- clears its lane, all of them. p_at: the index of each command's lane. Runs under the lanes'
-- locks, after new messages were stored.

CREATE OR REPLACE FUNCTION @schema@.flow_commit_clean(
    p_commands jsonb, p_unsend jsonb, p_lanes @schema@.flow_lanes[],
    p_at integer[], p_ok boolean[])
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_clear bigint[];
BEGIN
    DELETE FROM @schema@.flow_messages m
    USING ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint)) WITH ORDINALITY
        AS c (lane, ord)
    WHERE p_ok[c.ord] AND m.lane_id = c.lane AND m.seq <= (p_lanes[p_at[c.ord]]).lease_seq
        AND m.visible_at <= (p_lanes[p_at[c.ord]]).lease_at;
    IF p_unsend <> '[]' THEN
        DELETE FROM @schema@.flow_messages m
        USING jsonb_to_recordset(p_unsend) AS x (c integer, execution bigint, event bigint)
        WHERE p_ok[x.c] AND m.lane_id = (p_commands->(x.c - 1)->>'lane')::bigint
            AND m.key_execution = x.execution AND m.key_event = x.event;
    END IF;
    v_clear := ARRAY(
        SELECT c.lane
        FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, clear boolean))
            WITH ORDINALITY AS c (lane, clear, ord)
        WHERE p_ok[c.ord] AND c.clear);
    IF v_clear <> '{}' THEN
        DELETE FROM @schema@.flow_messages m WHERE m.lane_id = ANY (v_clear);
    END IF;
END
$$;
