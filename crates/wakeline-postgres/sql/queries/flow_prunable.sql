-- A page of instances, and whether old executions of each can go. Called by: FlowAdmin::prune.
SELECT lane_id, prunable FROM @schema@.flow_prunable($1, $2, $3, $4, $5, $6)
