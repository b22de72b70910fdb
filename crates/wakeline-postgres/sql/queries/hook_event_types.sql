-- Returns a page of event types, including archived ones if $2.
SELECT t.name, t.description, t.schemas, t.enforced, t.archived, t.deprecated, t.feature_flag,
    t.group_name, t.created_at, t.updated_at
FROM @schema@.hook_event_types t
WHERE t.name @than@ $1 AND ($2 OR NOT t.archived)
ORDER BY t.name @order@ LIMIT $3
