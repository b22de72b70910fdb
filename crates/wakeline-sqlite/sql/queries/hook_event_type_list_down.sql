-- A page of event types by name, last first; archived ones if ?2.
-- Called by: event_type::list. Walks the table.
SELECT name, description, schemas, enforced, archived, deprecated, feature_flag, group_name, created_at, updated_at
FROM hook_event_types WHERE name < ?1 AND (?2 OR archived = 0) ORDER BY name DESC LIMIT ?3
