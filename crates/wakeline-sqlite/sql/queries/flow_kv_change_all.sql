-- Records that an execution removed all keys.
INSERT INTO kv_changes (lane_id, key, value, execution, updated_at)
SELECT lane_id, key, NULL, ?2, ?3 FROM kv WHERE lane_id = ?1
ON CONFLICT (lane_id, key) DO UPDATE SET value = NULL, execution = ?2, updated_at = ?3
