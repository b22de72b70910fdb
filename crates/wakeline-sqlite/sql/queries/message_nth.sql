-- The offset of the n-th message that is stored, counted from 0. Called by: housekeep.
SELECT offset FROM messages WHERE partition_id = ?1 ORDER BY offset LIMIT 1 OFFSET ?2
