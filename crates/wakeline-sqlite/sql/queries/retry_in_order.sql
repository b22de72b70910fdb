-- Parked messages by offset, due or not (?3 is not used: the reader stops at the first that is not due).
-- Called by: take::take_parked, under strict ordering.
SELECT offset, failures, due_at, alone
FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND ?3 IS NOT NULL ORDER BY offset LIMIT ?4
