-- Forgets what an execution changed.
-- Called by: kv::apply, kv::merge, delete::remove.
DELETE FROM kv_changes WHERE lane_id = ?1
