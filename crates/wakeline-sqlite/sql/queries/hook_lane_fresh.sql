-- Endpoints that can be served with a first attempt, in the order in which they became due, except
-- those of the applications in ?3 (a JSON list of numbers, or NULL). For claims that have capacity
-- for first attempts only. Uses the index hook_lanes_fresh.
SELECT endpoint_no FROM hook_lanes INDEXED BY hook_lanes_fresh
WHERE pulled = 0 AND fresh_at <= ?1 AND (?3 IS NULL OR NOT EXISTS (
    SELECT 1 FROM hook_endpoints e WHERE e.endpoint_no = hook_lanes.endpoint_no
      AND e.application_no IN (SELECT value FROM json_each(?3))))
ORDER BY fresh_at, endpoint_no LIMIT ?2
