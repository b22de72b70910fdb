-- Makes a partition.
-- Called by: group::ensure_partition.
INSERT INTO partitions (queue_id, name) VALUES (?1, ?2)
