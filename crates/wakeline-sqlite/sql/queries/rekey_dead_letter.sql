-- Replaces a payload by the same, sealed anew.
UPDATE dead_letters SET payload = ?2 WHERE dead_letter_id = ?1
