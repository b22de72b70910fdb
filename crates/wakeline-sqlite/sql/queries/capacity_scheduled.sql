-- The number of scheduled messages of a queue, in one partition (?2) or in all (NULL).
SELECT count(*) FROM scheduled WHERE queue_id = ?1 AND (?2 IS NULL OR partition_id = ?2)
