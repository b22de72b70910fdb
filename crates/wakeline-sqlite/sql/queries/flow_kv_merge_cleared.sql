-- Removes the keys that an execution left without a value.
-- Called by: kv::merge.
DELETE FROM kv WHERE lane_id = ?1
  AND key IN (SELECT c.key FROM kv_changes c WHERE c.lane_id = ?1 AND c.value IS NULL)
