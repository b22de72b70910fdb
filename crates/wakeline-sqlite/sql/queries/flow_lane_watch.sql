-- Records that a caller waits for the outcome of an instance.
UPDATE lanes SET watched = 1 WHERE lane_id = ?1 AND watched = 0
