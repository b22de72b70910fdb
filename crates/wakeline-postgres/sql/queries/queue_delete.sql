-- Takes a queue out of sight. Called by: QueueAdmin::delete_queue.
SELECT @schema@.queue_delete($1)
