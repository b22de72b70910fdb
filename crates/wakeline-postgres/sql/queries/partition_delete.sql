-- Removes a partition. Called by: QueueMessages::delete_partition.
SELECT @schema@.partition_delete($1, $2)
