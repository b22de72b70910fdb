-- Removes a dead letter. Called by: redrive::redrive_one.
DELETE FROM dead_letters WHERE dead_letter_id = ?1
