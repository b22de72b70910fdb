-- Removes old executions of some lanes. Called by: FlowAdmin::prune.
SELECT o_executions, o_events, o_lanes FROM @schema@.flow_prune($1, $2, $3, $4, $5)
