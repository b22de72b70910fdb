-- Records that a group has settled a message.
UPDATE groups SET settled = 1 WHERE group_id = ?1 AND settled = 0
