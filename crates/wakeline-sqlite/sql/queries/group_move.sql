-- Notes where a group begins after it was moved.
-- Called by: groups::seek.
UPDATE groups SET mode = ?2, from_at = ?3 WHERE group_id = ?1
