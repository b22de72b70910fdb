-- Notes where a group begins after it was moved.
-- Called by: configure::resubscribe.
UPDATE groups SET mode = 'from', from_at = ?2 WHERE group_id = ?1
