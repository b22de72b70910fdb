-- When the first delivery of each class of an endpoint is due. Uses the index
-- hook_deliveries_waiting.
SELECT
    (SELECT due_at FROM hook_deliveries INDEXED BY hook_deliveries_waiting
     WHERE state = 'waiting' AND endpoint_no = ?1 AND class = 0 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM hook_deliveries INDEXED BY hook_deliveries_waiting
     WHERE state = 'waiting' AND endpoint_no = ?1 AND class = 1 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM hook_deliveries INDEXED BY hook_deliveries_waiting
     WHERE state = 'waiting' AND endpoint_no = ?1 AND class = 2 ORDER BY due_at LIMIT 1),
    (SELECT due_at FROM hook_deliveries INDEXED BY hook_deliveries_waiting
     WHERE state = 'waiting' AND endpoint_no = ?1 AND class = 3 ORDER BY due_at LIMIT 1)
