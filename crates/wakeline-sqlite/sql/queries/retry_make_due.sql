-- Makes a parked message due now.
UPDATE retries SET due_at = min(due_at, ?4) WHERE partition_id = ?1 AND group_id = ?2 AND offset = ?3
