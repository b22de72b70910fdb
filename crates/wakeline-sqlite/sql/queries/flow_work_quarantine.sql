-- Moves the due time of an activity with a corrupt row into the future, so that claims skip it.
UPDATE work SET due_at = ?2 WHERE work_id = ?1
