-- The key-value state as of the start of the current execution.
SELECT key, value, execution, updated_at FROM kv WHERE lane_id = ?1 ORDER BY key
