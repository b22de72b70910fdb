-- Gives the messages of a lease back: they are visible at ?4, and ?5 attempts more are counted.
-- Called by: message::return_taken.
UPDATE lane_messages INDEXED BY lane_messages_visible
SET visible_at = coalesce(?4, visible_at), attempts = attempts + ?5
WHERE lane_id = ?1 AND visible_at <= ?2 AND seq <= ?3
