-- Returns the messages of a lease: they become visible at ?4, and their attempts grow by ?5.
UPDATE lane_messages INDEXED BY lane_messages_visible
SET visible_at = coalesce(?4, visible_at), attempts = attempts + ?5
WHERE lane_id = ?1 AND visible_at <= ?2 AND seq <= ?3
