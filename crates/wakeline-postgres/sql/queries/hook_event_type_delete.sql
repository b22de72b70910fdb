-- Removes an event type. Called by: HookCatalog::delete_event_type.
DELETE FROM @schema@.hook_event_types WHERE name = $1 RETURNING name
