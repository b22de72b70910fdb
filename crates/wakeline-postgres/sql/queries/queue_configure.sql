-- Changes a queue's options.
SELECT @schema@.queue_configure($1, $2, $3, $4::text::jsonb)
