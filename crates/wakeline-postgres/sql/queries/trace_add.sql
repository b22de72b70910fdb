-- Notes something on a message. Called by: QueueTraces::add_trace.
SELECT @schema@.trace_add($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
