-- Removes the key-value changes of the current execution.
DELETE FROM kv_changes WHERE lane_id = ?1
