-- Adds to the counts of messages that the groups of a queue have lost.
INSERT INTO housekeeping (queue_id, expired, evicted, dropped) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue_id) DO UPDATE
SET expired = expired + ?2, evicted = evicted + ?3, dropped = dropped + ?4
