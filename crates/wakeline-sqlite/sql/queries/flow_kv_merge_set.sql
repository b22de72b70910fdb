-- Takes over the values that the ended execution had set.
INSERT INTO kv (lane_id, key, value, execution, updated_at)
SELECT lane_id, key, value, execution, updated_at FROM kv_changes WHERE lane_id = ?1 AND value IS NOT NULL
ON CONFLICT (lane_id, key) DO UPDATE SET value = excluded.value, execution = excluded.execution,
    updated_at = excluded.updated_at
