-- Removes some values of a lane.
-- Called by: delete::erase.
DELETE FROM kv WHERE lane_id = ?1 AND key IN (SELECT k.key FROM kv k WHERE k.lane_id = ?1 LIMIT ?2)
