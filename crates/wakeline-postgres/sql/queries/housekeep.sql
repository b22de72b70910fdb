-- Does a piece of housekeeping. Called by: QueueKeeper::housekeep.
SELECT kind, queue, partition, namespace, task, a, b, due_us, c
FROM @schema@.housekeep($1, $2, $3, $4)
