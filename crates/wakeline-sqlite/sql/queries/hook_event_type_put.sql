-- Inserts an event type, or replaces all of its columns except the creation time.
INSERT INTO hook_event_types (name, description, schemas, enforced, archived, deprecated, feature_flag, group_name,
                              created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
ON CONFLICT (name) DO UPDATE
SET description = ?2, schemas = ?3, enforced = ?4, archived = ?5, deprecated = ?6, feature_flag = ?7, group_name = ?8,
    updated_at = ?9
