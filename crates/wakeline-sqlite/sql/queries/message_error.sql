-- The last error of a message in a group that has parked it, or for which it is a dead letter.
SELECT coalesce(
    (SELECT error FROM retries WHERE partition_id = ?1 AND group_id = ?2 AND offset = ?3),
    (SELECT error FROM dead_letters WHERE partition_id = ?1 AND offset = ?3 AND group_name = ?4
     ORDER BY dead_letter_id DESC LIMIT 1))
