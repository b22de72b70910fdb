-- Records that an execution set a key (?3) or removed it (NULL).
INSERT INTO kv_changes (lane_id, key, value, execution, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (lane_id, key) DO UPDATE SET value = ?3, execution = ?4, updated_at = ?5
