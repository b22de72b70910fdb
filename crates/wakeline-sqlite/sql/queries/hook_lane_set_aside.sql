-- Keeps claims away from an endpoint that cannot be read.
-- Called by: claim::set_aside.
UPDATE hook_lanes SET due_at = ?2, fresh_at = ?2 WHERE endpoint_no = ?1
