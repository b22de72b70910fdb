-- Removes the messages that a lease holds: visible at ?2, with a sequence number up to ?3.
DELETE FROM lane_messages INDEXED BY lane_messages_visible
WHERE lane_id = ?1 AND visible_at <= ?2 AND seq <= ?3
