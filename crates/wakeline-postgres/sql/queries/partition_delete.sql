-- Removes a partition.
SELECT @schema@.partition_delete($1, $2)
