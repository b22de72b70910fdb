-- Returns a page of instances, and whether old executions of each can be removed.
SELECT lane_id, prunable FROM @schema@.flow_prunable($1, $2, $3, $4, $5, $6)
