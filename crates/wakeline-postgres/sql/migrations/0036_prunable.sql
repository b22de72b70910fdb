-- Finds the instances that may have old executions, to prune these page by page.

-- Nothing in it ever changes, so that updates of an execution stay cheap.
CREATE INDEX flow_executions_later ON @schema@.flow_executions (lane_id) WHERE execution > 1;
