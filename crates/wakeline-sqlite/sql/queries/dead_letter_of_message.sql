-- Whether a group gave a message up.
-- Called by: inspect::state.
SELECT 1 FROM dead_letters WHERE partition_id = ?1 AND offset = ?2 AND group_name = ?3
