-- How many messages of a queue wait for their time, in one partition (?2) or in all (NULL). Called by:
-- room::room.
SELECT count(*) FROM scheduled WHERE queue_id = ?1 AND (?2 IS NULL OR partition_id = ?2)
