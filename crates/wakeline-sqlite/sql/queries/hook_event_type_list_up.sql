-- A page of event types by name, in ascending order, with archived ones if ?2. Scans the table.
SELECT name, description, schemas, enforced, archived, deprecated, feature_flag, group_name, created_at, updated_at
FROM hook_event_types WHERE name > ?1 AND (?2 OR archived = 0) ORDER BY name ASC LIMIT ?3
