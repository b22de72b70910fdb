-- The number of stored messages of a queue, in one partition (?2) or in all (NULL).
SELECT coalesce(sum(p.next_offset - coalesce(
    (SELECT m.offset FROM messages m WHERE m.partition_id = p.partition_id ORDER BY m.offset LIMIT 1), p.next_offset) - p.gaps), 0)
FROM partitions p WHERE p.queue_id = ?1 AND (?2 IS NULL OR p.partition_id = ?2)
