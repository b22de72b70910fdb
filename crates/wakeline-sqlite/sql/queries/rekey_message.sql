-- Replaces the payload of a message by the same payload encrypted with the current key.
UPDATE messages SET payload = ?3 WHERE partition_id = ?1 AND offset = ?2
