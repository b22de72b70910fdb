-- What the groups of a queue lost. Called by: losses.
SELECT expired, evicted FROM housekeeping WHERE queue_id = ?1
