-- Writes the changes of turns to their instances: the instance itself, its execution and its
-- history. Returns the phase of each instance afterwards (1 running, 2 ended), by the index of its
-- command; NULL if it does not exist. Runs under the lanes' locks.

CREATE OR REPLACE FUNCTION @schema@.flow_commit_write(
    p_commands jsonb, p_blobs bytea[], p_codes smallint[], p_names text[], p_phases smallint[],
    p_now timestamptz)
RETURNS smallint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_lanes bigint[];
    v_phases smallint[];
BEGIN
    WITH made AS (
        INSERT INTO @schema@.flow_instances AS i (lane_id, instance, name, parent, parent_event,
            execution, state, status, status_version, kv_version, created_at, updated_at, ended_at)
        SELECT c.lane, p_names[c.ord], coalesce(c.name, ''), c.parent, c.parent_event, c.execution,
            CASE WHEN c.ending IS NULL OR c.ending = 'continued_as_new' THEN 'running'
                ELSE c.ending END,
            c.status, c.statuses, c.kv::integer, p_now, p_now,
            CASE WHEN c.ending <> 'continued_as_new' THEN p_now END
        FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, execution bigint, name text,
                parent text, parent_event bigint, status text, statuses integer, kv boolean,
                ending text))
            WITH ORDINALITY AS c (lane, execution, name, parent, parent_event, status, statuses, kv,
                ending, ord)
        WHERE p_codes[c.ord] = 0 AND (p_phases[c.ord] > 0 OR c.name IS NOT NULL)
        ON CONFLICT (lane_id) DO UPDATE SET
            execution = greatest(i.execution, excluded.execution),
            state = CASE WHEN excluded.ended_at IS NOT NULL OR excluded.execution > i.execution
                THEN excluded.state ELSE i.state END,
            status = CASE WHEN excluded.status_version > 0 THEN excluded.status
                ELSE i.status END,
            status_version = i.status_version + excluded.status_version,
            kv_version = i.kv_version + excluded.kv_version,
            updated_at = p_now,
            ended_at = CASE WHEN excluded.execution > i.execution THEN excluded.ended_at
                ELSE coalesce(excluded.ended_at, i.ended_at) END
        RETURNING i.lane_id, i.ended_at
    )
    SELECT array_agg(m.lane_id),
        array_agg(CASE WHEN m.ended_at IS NULL THEN 1 ELSE 2 END::smallint)
    INTO v_lanes, v_phases FROM made m;
    INSERT INTO @schema@.flow_executions AS e (lane_id, execution, version, state, output,
        last_event, history_bytes, started_at, ended_at)
    SELECT c.lane, c.execution, c.version, coalesce(c.ending, 'running'), p_blobs[c.output],
        coalesce(c.last, 0), coalesce(octet_length(p_blobs[c.events]), 0), p_now,
        CASE WHEN c.ending IS NOT NULL THEN p_now END
    FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, execution bigint, version text,
            ending text, output integer, last bigint, events integer))
        WITH ORDINALITY AS c (lane, execution, version, ending, output, last, events, ord)
    WHERE p_codes[c.ord] = 0 AND c.lane = ANY (v_lanes)
    ON CONFLICT (lane_id, execution) DO UPDATE SET
        version = coalesce(excluded.version, e.version),  -- empty: pinned without one
        state = CASE WHEN excluded.ended_at IS NULL THEN e.state ELSE excluded.state END,
        output = CASE WHEN excluded.ended_at IS NULL THEN e.output ELSE excluded.output END,
        last_event = greatest(e.last_event, excluded.last_event),
        history_bytes = e.history_bytes + excluded.history_bytes,
        ended_at = coalesce(excluded.ended_at, e.ended_at);
    INSERT INTO @schema@.flow_history (lane_id, execution, first_event, last_event, events)
    SELECT c.lane, c.execution, c.first, c.last, p_blobs[c.events]
    FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint, execution bigint, first bigint,
            last bigint, events integer))
        WITH ORDINALITY AS c (lane, execution, first, last, events, ord)
    WHERE p_codes[c.ord] = 0 AND c.events IS NOT NULL;
    RETURN ARRAY(
        SELECT CASE WHEN p_codes[c.ord] = 0 THEN v_phases[array_position(v_lanes, c.lane)] END
        FROM ROWS FROM (jsonb_to_recordset(p_commands) AS (lane bigint)) WITH ORDINALITY
            AS c (lane, ord)
        ORDER BY c.ord);
END
$$;
