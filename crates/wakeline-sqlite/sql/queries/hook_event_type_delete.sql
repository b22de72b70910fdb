-- Removes an event type.
-- Called by: event_type::delete.
DELETE FROM hook_event_types WHERE name = ?1
