-- Removes the keys that the ended execution had removed.
DELETE FROM kv WHERE lane_id = ?1
  AND key IN (SELECT c.key FROM kv_changes c WHERE c.lane_id = ?1 AND c.value IS NULL)
