-- Removes one dead letter.
DELETE FROM dead_letters WHERE dead_letter_id = ?1
