-- Finds the instances that may have old executions, to prune these page by page.

CREATE INDEX executions_later ON executions (lane_id) WHERE execution > 1;
