-- The partitions of a queue, with where they end and the first message that is stored. Called by: tally::behind.
SELECT p.partition_id, p.next_offset,
    (SELECT m.offset FROM messages m WHERE m.partition_id = p.partition_id ORDER BY m.offset LIMIT 1)
FROM partitions p WHERE p.queue_id = ?1
