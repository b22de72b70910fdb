-- Corrects the due time of a cursor.
UPDATE cursors SET due_at = ?3 WHERE partition_id = ?1 AND group_id = ?2
