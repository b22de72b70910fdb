-- The number of the newest dead letter.
SELECT coalesce(max(dead_letter_id), 0) FROM dead_letters
