-- Removes the messages at the beginning of a log, before an offset.
DELETE FROM messages WHERE partition_id = ?1 AND offset < ?2
