-- The lowest parked offset.
SELECT offset FROM retries WHERE partition_id = ?1 AND group_id = ?2 ORDER BY offset LIMIT 1
