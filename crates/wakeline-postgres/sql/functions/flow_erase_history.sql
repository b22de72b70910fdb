-- Removes history that deleted lanes and executions left: at most p_rows rows, and about 16 MB.
-- Returns the number of rows, or p_rows if something is left. Runs under the locks of the notes.

CREATE OR REPLACE FUNCTION @schema@.flow_erase_history(p_notes bigint[], p_rows bigint)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_seen bigint;
    v_gone bigint;
BEGIN
    WITH found AS (
        SELECT h.lane_id, h.execution, h.first_event, pg_column_size(h.events) AS bytes
        FROM @schema@.flow_leftovers k
        CROSS JOIN LATERAL (
            SELECT h.* FROM @schema@.flow_history h WHERE h.lane_id = k.lane_id
                AND (k.execution IS NULL OR h.execution = k.execution)
            LIMIT p_rows) h
        WHERE k.leftover_id = ANY (p_notes)
        LIMIT p_rows
    ), few AS (
        SELECT f.lane_id, f.execution, f.first_event, f.bytes, sum(f.bytes) OVER (
            ORDER BY f.lane_id, f.execution, f.first_event) AS total
        FROM found f
    ), gone AS (
        DELETE FROM @schema@.flow_history h USING few f
        WHERE f.total - f.bytes < 16777216 AND h.lane_id = f.lane_id
            AND h.execution = f.execution AND h.first_event = f.first_event
        RETURNING h.first_event
    )
    SELECT (SELECT count(*) FROM found), (SELECT count(*) FROM gone) INTO v_seen, v_gone;
    RETURN CASE WHEN v_gone < v_seen THEN p_rows ELSE v_gone END;
END
$$;
