-- Records that a group has settled something. Called by: idle::record_settled.
UPDATE groups SET settled = 1 WHERE group_id = ?1 AND settled = 0
