-- Where the batch begins that an event is in.
-- Called by: read::history.
SELECT first_event FROM history
WHERE lane_id = ?1 AND execution = ?2 AND first_event <= ?3 AND last_event >= ?3 ORDER BY first_event DESC LIMIT 1
