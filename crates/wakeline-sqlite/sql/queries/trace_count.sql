-- How many traces a message has. Called by: traces::add.
SELECT count(*) FROM traces WHERE partition_id = ?1 AND offset = ?2
