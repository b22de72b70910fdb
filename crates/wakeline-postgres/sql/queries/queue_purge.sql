-- Removes some rows of deleted queues.
SELECT @schema@.queue_purge()
