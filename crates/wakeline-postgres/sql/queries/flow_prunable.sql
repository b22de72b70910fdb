-- Instances of which old executions can go. Called by: FlowAdmin::prune.
SELECT @schema@.flow_prunable($1, $2, $3, $4, $5)
