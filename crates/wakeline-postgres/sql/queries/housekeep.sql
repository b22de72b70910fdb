-- Executes a batch of housekeeping.
SELECT kind, queue, partition, namespace, task, a, b, due_us, c
FROM @schema@.housekeep($1, $2, $3, $4)
