-- Replaces a queue's options. Called by: QueueAdmin::configure.
SELECT @schema@.queue_configure($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
