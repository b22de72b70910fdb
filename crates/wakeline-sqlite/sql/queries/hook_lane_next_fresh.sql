-- When the first endpoint to which deliveries are sent can be served with a first attempt, possibly
-- in the past. Endpoints of the applications in ?1 (a JSON list of numbers, or NULL) are ignored.
SELECT fresh_at FROM hook_lanes INDEXED BY hook_lanes_fresh
WHERE pulled = 0 AND fresh_at IS NOT NULL AND (?1 IS NULL OR NOT EXISTS (
    SELECT 1 FROM hook_endpoints e WHERE e.endpoint_no = hook_lanes.endpoint_no
      AND e.application_no IN (SELECT value FROM json_each(?1))))
ORDER BY fresh_at LIMIT 1
