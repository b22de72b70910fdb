-- Removes old executions. Called by: FlowAdmin::prune.
SELECT o_count, o_executions, o_events FROM @schema@.flow_prune($1, $2, $3, $4, $5)
