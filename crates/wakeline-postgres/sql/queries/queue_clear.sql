-- Removes messages of a queue or of one of its partitions, step by step.
SELECT * FROM @schema@.queue_clear($1, $2, $3, $4)
