-- One instance by its lane.
SELECT lane_id, instance, name, parent, parent_event, execution, state, status, status_version, kv_version,
       created_at, updated_at, ended_at, output
FROM instances WHERE lane_id = ?1
