-- A partition of a queue by its name.
SELECT partition_id FROM partitions WHERE queue_id = ?1 AND name = ?2
