-- Removes a message by its key.
DELETE FROM lane_messages INDEXED BY lane_messages_key
WHERE lane_id = ?1 AND key_execution = ?2 AND key_event = ?3
