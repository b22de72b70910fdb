-- Removes work that turns cancelled, or, if a turn clears its lane, all work of it. Runs under the
-- lanes' locks, before new work is stored, so that only older work is removed. (The node leaves out
-- new work that the same turn cancels.) Lock order: work.

CREATE OR REPLACE FUNCTION @schema@.flow_commit_cancel_work(
    p_commands jsonb, p_unwork jsonb, p_ok boolean[])
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_works bigint[];
BEGIN
    v_works := ARRAY(
        SELECT w.work_id
        FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, clear boolean))
            WITH ORDINALITY AS c (lane, clear, ord)
        JOIN @schema@.flow_work w ON w.lane_id = c.lane
        WHERE p_ok[c.ord] AND c.clear);
    IF p_unwork <> '[]' THEN
        v_works := v_works || ARRAY(
            SELECT w.work_id
            FROM jsonb_to_recordset(p_unwork) AS x (c integer, execution bigint, activity bigint)
            JOIN @schema@.flow_work w ON w.lane_id = (p_commands->(x.c - 1)->>'lane')::bigint
                AND w.execution = x.execution AND w.activity = x.activity
            WHERE p_ok[x.c]);
    END IF;
    PERFORM @schema@.flow_work_remove(v_works);
END
$$;
