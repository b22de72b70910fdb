-- Settles messages under their leases.
SELECT entry, held, lease_token, strict_fencing, items, dead, queue, partition, namespace, task,
    due_us
FROM @schema@.settle($1, $2, $3, $4, $5, $6, $7, false)
