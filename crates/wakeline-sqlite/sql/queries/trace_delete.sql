-- Removes the traces of one message.
DELETE FROM traces WHERE partition_id = ?1 AND offset = ?2
