-- Stores where a group starts to read, after it was moved.
UPDATE groups SET mode = ?2, from_at = ?3 WHERE group_id = ?1
