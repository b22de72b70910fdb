-- Releases the unsettled messages of leases.
SELECT queue, partition, namespace, task, group_name, due_us FROM @schema@.release($1, $2, $3)
