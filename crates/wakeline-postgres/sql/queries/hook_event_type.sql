-- Returns an event type.
SELECT t.name, t.description, t.schemas, t.enforced, t.archived, t.deprecated, t.feature_flag,
    t.group_name, t.created_at, t.updated_at
FROM @schema@.hook_event_types t WHERE t.name = $1
