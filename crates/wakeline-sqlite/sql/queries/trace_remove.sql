-- Removes the traces of the beginning of a log. Called by: housekeep.
DELETE FROM traces WHERE partition_id = ?1 AND offset < ?2
