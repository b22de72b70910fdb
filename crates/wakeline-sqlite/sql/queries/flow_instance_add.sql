-- Inserts an instance.
INSERT INTO instances (lane_id, instance, name, parent, parent_event, execution, state, status, status_version,
                       kv_version, created_at, updated_at, ended_at, output, started_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
