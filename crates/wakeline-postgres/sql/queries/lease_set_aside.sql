-- Gives unreadable messages back and keeps claims away from them. Called by: QueueStore::claim.
SELECT @schema@.lease_set_aside($1, $2, $3, $4)
