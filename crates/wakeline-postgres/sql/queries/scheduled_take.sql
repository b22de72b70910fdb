-- Locks the rows that a transaction needs, and removes the timers that it cancels.
SELECT ord, taken, id, txn_id, deliver_at FROM @schema@.scheduled_take($1, $2, $3, $4, $5)
