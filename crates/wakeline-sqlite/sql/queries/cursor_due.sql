-- Corrects when a cursor may have something.
-- Called by: claim::corrected, claim::set_aside, configure::correct_due_times.
UPDATE cursors SET due_at = ?3 WHERE partition_id = ?1 AND group_id = ?2
