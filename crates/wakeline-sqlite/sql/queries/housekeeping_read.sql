-- The counts of messages that the groups of a queue have lost.
SELECT expired, evicted, dropped FROM housekeeping WHERE queue_id = ?1
