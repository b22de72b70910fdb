-- The current key-value state, of one key (?2) or of all (NULL).
SELECT key, value, execution, updated_at FROM kv
WHERE lane_id = ?1 AND (?2 IS NULL OR key = ?2)
  AND NOT EXISTS (SELECT 1 FROM kv_changes c WHERE c.lane_id = ?1 AND c.key = kv.key)
UNION ALL
SELECT key, value, execution, updated_at FROM kv_changes
WHERE lane_id = ?1 AND (?2 IS NULL OR key = ?2) AND value IS NOT NULL
ORDER BY key
