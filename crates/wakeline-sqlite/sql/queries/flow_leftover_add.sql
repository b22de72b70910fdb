-- Notes what is left of a lane, or of one of its executions.
-- Called by: delete::unlink, delete::prune_some.
INSERT INTO lane_leftovers (deletion, lane_id, execution, parent, deleted_at, due_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
