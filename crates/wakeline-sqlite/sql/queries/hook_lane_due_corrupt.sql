-- Makes an endpoint with a corrupt row due, so that claims report it, unless it is due or
-- quarantined already.
UPDATE hook_lanes SET due_at = coalesce(due_at, ?2), fresh_at = coalesce(fresh_at, due_at, ?2) WHERE endpoint_no = ?1
