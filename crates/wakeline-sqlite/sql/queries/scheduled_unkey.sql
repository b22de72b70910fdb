-- Takes the key from a timer that is due: it is on its way, and another may have the key.
-- Called by: schedule::schedule.
UPDATE scheduled SET timer_key = NULL WHERE scheduled_id = ?1
