-- Replaces a payload by the same, sealed anew.
UPDATE messages SET payload = ?3 WHERE partition_id = ?1 AND offset = ?2
