-- Removes some key-value entries of a lane.
DELETE FROM kv WHERE lane_id = ?1 AND key IN (SELECT k.key FROM kv k WHERE k.lane_id = ?1 LIMIT ?2)
