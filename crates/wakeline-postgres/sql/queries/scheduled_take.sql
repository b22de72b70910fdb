-- Locks what a transaction needs and takes timers back. Called by: QueueStore::transact.
SELECT ord, taken, id, txn_id, deliver_at FROM @schema@.scheduled_take($1, $2, $3, $4, $5)
