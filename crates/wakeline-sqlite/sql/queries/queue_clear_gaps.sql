-- Sets the number of gaps of a queue's partitions to 0.
UPDATE partitions SET gaps = 0 WHERE queue_id = ?1 AND gaps > 0
