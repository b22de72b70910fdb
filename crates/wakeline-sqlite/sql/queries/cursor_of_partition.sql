-- The groups that have a cursor in a partition.
SELECT group_id FROM cursors WHERE partition_id = ?1 ORDER BY group_id
