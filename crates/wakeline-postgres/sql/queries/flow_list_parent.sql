-- Returns a page of the children of an instance, newest first. Columns as in flow_list.
SELECT instance, name, version, capability, state, suspended, output, status, status_version,
    kv_version, execution, parent, created_at, updated_at, ended_at
FROM @schema@.flow_list_parent($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
