-- Removes the traces of the messages at the beginning of a log, before an offset.
DELETE FROM traces WHERE partition_id = ?1 AND offset < ?2
