-- Cancels the waiting deliveries of a message.
SELECT * FROM @schema@.hook_cancel($1, $2, $3, $4, $5, $6, $7)
