-- The groups that read a partition.
SELECT group_id FROM cursors WHERE partition_id = ?1 ORDER BY group_id
