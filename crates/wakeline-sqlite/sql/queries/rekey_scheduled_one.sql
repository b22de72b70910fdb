-- Replaces a payload by the same, sealed anew.
UPDATE scheduled SET payload = ?2 WHERE scheduled_id = ?1
