-- Removes an event type.
DELETE FROM hook_event_types WHERE name = ?1
