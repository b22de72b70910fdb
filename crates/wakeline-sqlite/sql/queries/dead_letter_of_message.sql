-- Whether a message is a dead letter of a group.
SELECT 1 FROM dead_letters WHERE partition_id = ?1 AND offset = ?2 AND group_name = ?3
