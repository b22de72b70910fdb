-- Makes the activities of a route claimable whose delay has passed or whose lease has expired.
UPDATE work INDEXED BY work_due SET available_at = due_at, due_at = NULL
WHERE tag_id = ?1 AND name_id = ?2 AND taker = ?3 AND due_at <= ?4
