-- Adds a trace to a message.
SELECT @schema@.trace_add($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
