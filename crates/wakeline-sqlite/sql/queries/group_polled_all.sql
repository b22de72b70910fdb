-- Records a poll for every group of a queue.
UPDATE groups SET polled_at = ?2 WHERE queue_id = ?1
