-- Gives back what is unsettled under leases. Called by: QueueStore::release.
SELECT queue, partition, namespace, task, group_name, due_us FROM @schema@.release($1, $2, $3)
