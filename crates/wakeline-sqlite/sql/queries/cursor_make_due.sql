-- Makes the cursors due that had read a partition up to its old end (?2), unless a parked message
-- blocks them.
UPDATE cursors
SET due_at = min(coalesce(due_at, max(?3, freed_at)), max(?3, freed_at))
WHERE partition_id = ?1 AND lease_token IS NULL AND next_offset >= ?2 AND (parked = 0 OR ?4)
