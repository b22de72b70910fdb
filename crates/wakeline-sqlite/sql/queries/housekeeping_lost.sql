-- Counts what a group lost. Called by: claims, housekeep.
INSERT INTO housekeeping (queue_id, expired, evicted) VALUES (?1, ?2, ?3)
ON CONFLICT (queue_id) DO UPDATE SET expired = expired + ?2, evicted = evicted + ?3
