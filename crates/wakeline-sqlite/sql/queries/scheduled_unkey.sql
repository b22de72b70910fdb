-- Removes the key of a timer that is due, so that another timer can have the key.
UPDATE scheduled SET timer_key = NULL WHERE scheduled_id = ?1
