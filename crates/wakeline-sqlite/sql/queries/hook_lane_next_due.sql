-- When the first endpoint to which deliveries are sent can be served, possibly in the past.
-- Endpoints of the applications in ?1 (a JSON list of numbers, or NULL) are ignored.
SELECT due_at FROM hook_lanes INDEXED BY hook_lanes_due
WHERE pulled = 0 AND due_at IS NOT NULL AND (?1 IS NULL OR NOT EXISTS (
    SELECT 1 FROM hook_endpoints e WHERE e.endpoint_no = hook_lanes.endpoint_no
      AND e.application_no IN (SELECT value FROM json_each(?1))))
ORDER BY due_at LIMIT 1
