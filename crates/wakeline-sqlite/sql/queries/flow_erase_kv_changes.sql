-- Removes some key-value changes of a lane.
DELETE FROM kv_changes WHERE lane_id = ?1 AND key IN (SELECT k.key FROM kv_changes k WHERE k.lane_id = ?1 LIMIT ?2)
