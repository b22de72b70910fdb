-- Inserts a partition.
INSERT INTO partitions (queue_id, name) VALUES (?1, ?2)
