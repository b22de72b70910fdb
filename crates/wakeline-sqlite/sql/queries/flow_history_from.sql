-- The batches of an execution that begin at an event or later.
SELECT first_event, last_event, events FROM history
WHERE lane_id = ?1 AND execution = ?2 AND first_event >= ?3 ORDER BY first_event
