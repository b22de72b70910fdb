-- When the first scheduled message of a partition is due.
SELECT deliver_at FROM scheduled INDEXED BY scheduled_of_partition WHERE partition_id = ?1 ORDER BY deliver_at LIMIT 1
