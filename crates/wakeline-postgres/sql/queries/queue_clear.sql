-- Removes messages of a queue, step by step. Called by: QueueMessages::clear_queue.
SELECT * FROM @schema@.queue_clear($1, $2, $3)
