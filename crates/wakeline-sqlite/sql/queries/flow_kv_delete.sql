-- Removes the key-value state of an instance.
-- Called by: delete::remove.
DELETE FROM kv WHERE lane_id = ?1
