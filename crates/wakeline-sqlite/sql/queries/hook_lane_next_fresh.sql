-- The same for first attempts only.
-- Called by: claim::line_due.
SELECT fresh_at FROM hook_lanes INDEXED BY hook_lanes_fresh
WHERE pulled = 0 AND fresh_at IS NOT NULL AND (?1 IS NULL OR NOT EXISTS (
    SELECT 1 FROM hook_endpoints e WHERE e.endpoint_no = hook_lanes.endpoint_no
      AND e.application_no IN (SELECT value FROM json_each(?1))))
ORDER BY fresh_at LIMIT 1
