-- Removes the beginning of a log. Called by: housekeep.
DELETE FROM messages WHERE partition_id = ?1 AND offset < ?2
