-- Applies the changes of executions to the key-value state of their instances, when an execution
-- has ended. Runs under the lanes' locks.

CREATE OR REPLACE FUNCTION @schema@.flow_kv_merge(p_lanes bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_lanes = '{}' THEN
        RETURN;
    END IF;
    INSERT INTO @schema@.flow_kv AS k (lane_id, key, value, execution, updated_at)
    SELECT d.lane_id, d.key, d.value, d.execution, d.updated_at FROM @schema@.flow_kv_delta d
    WHERE d.lane_id = ANY (p_lanes) AND d.value IS NOT NULL
    ON CONFLICT (lane_id, key) DO UPDATE SET value = excluded.value,
        execution = excluded.execution, updated_at = excluded.updated_at;
    DELETE FROM @schema@.flow_kv k USING @schema@.flow_kv_delta d
    WHERE d.lane_id = ANY (p_lanes) AND d.value IS NULL
        AND k.lane_id = d.lane_id AND k.key = d.key;
    DELETE FROM @schema@.flow_kv_delta d WHERE d.lane_id = ANY (p_lanes);
END
$$;
