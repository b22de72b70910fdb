-- Replaces the payload of a scheduled message by the same payload encrypted with the current key.
UPDATE scheduled SET payload = ?2 WHERE scheduled_id = ?1
