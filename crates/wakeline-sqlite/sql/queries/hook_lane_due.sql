-- Endpoints that can be served, in the order in which they became due.
-- Called by: claim::Offered, for claims. Walks hook_lanes_due.
SELECT endpoint_no FROM hook_lanes INDEXED BY hook_lanes_due
WHERE pulled = 0 AND due_at <= ?1 ORDER BY due_at, endpoint_no LIMIT ?2
