-- Where the last batch begins and ends that begins at an event or before.
-- Called by: read::first_of.
SELECT first_event, last_event FROM history
WHERE lane_id = ?1 AND execution = ?2 AND first_event <= ?3 ORDER BY first_event DESC LIMIT 1
