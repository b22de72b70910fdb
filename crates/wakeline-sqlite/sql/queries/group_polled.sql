-- Records that a group was polled.
UPDATE groups SET polled_at = ?2 WHERE group_id = ?1
