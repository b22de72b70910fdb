-- Replaces a queue's options. Called by: QueueAdmin::configure.
SELECT @schema@.queue_configure($1, $2, $3, $4::text::jsonb)
