-- Records that a group was polled. Called by: idle::record_poll.
UPDATE groups SET polled_at = ?2 WHERE group_id = ?1
