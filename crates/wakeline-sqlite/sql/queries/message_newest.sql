-- The newest message with a transaction id in a partition, with its queue and the partition's name.
SELECT m.offset, p.queue_id, p.name
FROM messages m JOIN partitions p ON p.partition_id = m.partition_id
WHERE m.partition_id = ?1 AND m.transaction_id = ?2 ORDER BY m.offset DESC LIMIT 1
