-- Notes that somebody waits for the outcome of an instance.
-- Called by: read::watch.
UPDATE lanes SET watched = 1 WHERE lane_id = ?1 AND watched = 0
