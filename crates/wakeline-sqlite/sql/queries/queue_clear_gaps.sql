-- Counts no gaps in a queue's partitions any more. Called by: messages::clear.
UPDATE partitions SET gaps = 0 WHERE queue_id = ?1 AND gaps > 0
