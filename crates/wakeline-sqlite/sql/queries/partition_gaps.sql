-- Counts the gaps of a partition and stores the number.
UPDATE partitions SET gaps = (SELECT count(*) FROM gaps g WHERE g.partition_id = ?1)
WHERE partition_id = ?1
