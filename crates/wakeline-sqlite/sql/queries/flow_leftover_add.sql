-- Records that rows of a deleted lane, or of one of its executions, are still to be removed.
INSERT INTO lane_leftovers (deletion, lane_id, execution, parent, deleted_at, due_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
