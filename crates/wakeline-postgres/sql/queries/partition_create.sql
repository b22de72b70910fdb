-- Creates missing queues and partitions.
SELECT ord, partition_id FROM @schema@.partition_create($1, $2, $3, $4, $5)
