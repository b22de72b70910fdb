-- Removes the dead letters of a message for one group.
DELETE FROM dead_letters WHERE partition_id = ?1 AND offset = ?2 AND group_name = ?3
