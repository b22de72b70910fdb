-- Creates or replaces an event type.
SELECT * FROM @schema@.hook_event_type_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
