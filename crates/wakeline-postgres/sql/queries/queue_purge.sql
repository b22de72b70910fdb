-- Removes some rows of deleted queues. Called by: QueueAdmin::delete_queue, QueueStore::sweep.
SELECT @schema@.queue_purge()
