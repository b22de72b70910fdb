-- What the groups of a queue lost. Called by: losses.
SELECT expired, evicted, dropped FROM housekeeping WHERE queue_id = ?1
