-- Removes the gaps before an offset.
DELETE FROM gaps WHERE partition_id = ?1 AND offset < ?2
