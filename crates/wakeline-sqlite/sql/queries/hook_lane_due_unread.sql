-- Leads claims to an endpoint that cannot be read, unless they come by, or keep away from it for a while, already.
-- Called by: emit::for_unread.
UPDATE hook_lanes SET due_at = coalesce(due_at, ?2), fresh_at = coalesce(fresh_at, due_at, ?2) WHERE endpoint_no = ?1
