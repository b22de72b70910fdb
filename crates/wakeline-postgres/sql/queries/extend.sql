-- Moves the end of a lease. Called by: QueueStore::extend.
SELECT partition_id, group_id, lease_until FROM @schema@.extend($1, $2, $3, $4)
