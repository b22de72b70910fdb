-- Removes the traces of a partition.
DELETE FROM traces WHERE partition_id = ?1
