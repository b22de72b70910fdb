-- How many messages were deleted from an offset on, before another one. Called by: gap::count.
SELECT count(*) FROM gaps WHERE partition_id = ?1 AND offset >= ?2 AND offset < ?3
