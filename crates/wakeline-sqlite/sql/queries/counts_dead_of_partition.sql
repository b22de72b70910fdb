-- The messages of a partition that have dead letters, and how many dead letters each has.
SELECT partition_id, offset, count(*) FROM dead_letters WHERE partition_id = ?1 GROUP BY offset
