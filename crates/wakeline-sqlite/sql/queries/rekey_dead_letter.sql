-- Replaces the payload of a dead letter by the same payload encrypted with the current key.
UPDATE dead_letters SET payload = ?2 WHERE dead_letter_id = ?1
