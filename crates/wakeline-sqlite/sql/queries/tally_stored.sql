-- The partitions of a queue, with where they end, the first message that is stored, and how many were deleted after it. Called by: tally::behind.
SELECT p.partition_id, p.next_offset,
    (SELECT m.offset FROM messages m WHERE m.partition_id = p.partition_id ORDER BY m.offset LIMIT 1), p.gaps
FROM partitions p WHERE p.queue_id = ?1
