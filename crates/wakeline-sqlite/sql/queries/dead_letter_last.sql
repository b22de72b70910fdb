-- The newest dead letter. Called by: redrive::start.
SELECT coalesce(max(dead_letter_id), 0) FROM dead_letters
