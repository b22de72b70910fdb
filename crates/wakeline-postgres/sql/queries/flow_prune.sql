-- Removes old executions of some lanes.
SELECT o_executions, o_events, o_lanes FROM @schema@.flow_prune($1, $2, $3, $4, $5)
