-- Deletes an event type.
DELETE FROM @schema@.hook_event_types WHERE name = $1 RETURNING name
