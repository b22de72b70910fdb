-- Endpoints that can be served with a first attempt, in the order in which they became due.
-- Called by: claim::Offered, for claims that have no room for other attempts. Walks hook_lanes_fresh.
SELECT endpoint_no FROM hook_lanes INDEXED BY hook_lanes_fresh
WHERE pulled = 0 AND fresh_at <= ?1 ORDER BY fresh_at, endpoint_no LIMIT ?2
