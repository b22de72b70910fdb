-- Parked messages by offset, due or not, for strict ordering. ?3 is not used: the reader stops at
-- the first message that is not due.
SELECT offset, failures, due_at, alone
FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND ?3 IS NOT NULL ORDER BY offset LIMIT ?4
