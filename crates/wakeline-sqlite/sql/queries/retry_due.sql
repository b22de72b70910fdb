-- Parked messages that are due, in the order of their due times, for relaxed ordering.
SELECT offset, failures, due_at, alone
FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND due_at <= ?3 ORDER BY due_at, offset LIMIT ?4
