-- Makes missing queues and partitions. Called by: QueueStore::push, QueueAdmin::configure.
SELECT ord, partition_id FROM @schema@.partition_create($1, $2, $3, $4, $5)
