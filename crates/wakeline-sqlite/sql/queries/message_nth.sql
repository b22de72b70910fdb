-- The offset of the n-th stored message of a partition, counted from 0.
SELECT offset FROM messages WHERE partition_id = ?1 ORDER BY offset LIMIT 1 OFFSET ?2
