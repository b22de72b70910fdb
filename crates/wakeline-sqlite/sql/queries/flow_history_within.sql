-- The first and last event of the batch that contains an event, or of the last batch before it.
SELECT first_event, last_event FROM history
WHERE lane_id = ?1 AND execution = ?2 AND first_event <= ?3 ORDER BY first_event DESC LIMIT 1
