-- Removes the traces of a message. Called by: delete::delete.
DELETE FROM traces WHERE partition_id = ?1 AND offset = ?2
