-- Counts the groups of a queue as polled. Called by: configure::configure, idle::resume.
UPDATE groups SET polled_at = ?2 WHERE queue_id = ?1
