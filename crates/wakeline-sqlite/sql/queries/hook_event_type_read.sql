-- One event type by its name.
SELECT name, description, schemas, enforced, archived, deprecated, feature_flag, group_name, created_at, updated_at
FROM hook_event_types WHERE name = ?1
