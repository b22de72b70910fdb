-- Writes the changes of key-value state by turns: to the delta of the execution, and, if the
-- execution ends, the whole delta into the state. Runs under the lanes' locks.

CREATE OR REPLACE FUNCTION @schema@.flow_commit_kv(
    p_commands jsonb, p_kv jsonb, p_blobs bytea[], p_codes smallint[], p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO @schema@.flow_kv_delta AS d (lane_id, key, value, execution, updated_at)
    SELECT DISTINCT c.lane, k.key, NULL::bytea, c.execution, p_now
    FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, execution bigint,
            kv_clear boolean))
        WITH ORDINALITY AS c (lane, execution, kv_clear, ord)
    CROSS JOIN LATERAL (
        SELECT k.key FROM @schema@.flow_kv k WHERE k.lane_id = c.lane
        UNION ALL
        SELECT k.key FROM @schema@.flow_kv_delta k WHERE k.lane_id = c.lane
    ) k
    WHERE p_codes[c.ord] = 0 AND c.kv_clear
    ON CONFLICT (lane_id, key) DO UPDATE SET value = NULL, execution = excluded.execution,
        updated_at = excluded.updated_at;
    INSERT INTO @schema@.flow_kv_delta AS d (lane_id, key, value, execution, updated_at)
    SELECT c.lane, k.key, p_blobs[k.value], c.execution, p_now
    FROM jsonb_to_recordset(p_kv) AS k (c integer, key text, value integer)
    CROSS JOIN LATERAL (
        SELECT (p_commands->(k.c - 1)->>'lane')::bigint AS lane,
            (p_commands->(k.c - 1)->>'execution')::bigint AS execution
    ) c
    WHERE p_codes[k.c] = 0
    ON CONFLICT (lane_id, key) DO UPDATE SET value = excluded.value,
        execution = excluded.execution, updated_at = excluded.updated_at;
    PERFORM @schema@.flow_kv_merge(ARRAY(
        SELECT c.lane
        FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, ending text))
            WITH ORDINALITY AS c (lane, ending, ord)
        WHERE p_codes[c.ord] = 0 AND c.ending IS NOT NULL));
END
$$;
