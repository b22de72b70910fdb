-- How many messages are held back, by an index of these alone.
-- Called by: QueueMaintenance::held_messages.
SELECT count(*) FROM @schema@.scheduled s WHERE s.held
