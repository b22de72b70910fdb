-- The partitions of a queue, each with the end of its log, its first stored message, and the number
-- of messages that were deleted after it.
SELECT p.partition_id, p.next_offset,
    (SELECT m.offset FROM messages m WHERE m.partition_id = p.partition_id ORDER BY m.offset LIMIT 1), p.gaps
FROM partitions p WHERE p.queue_id = ?1
