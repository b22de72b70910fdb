-- Keeps claims away from an endpoint.
-- Called by: application::stop_some.
UPDATE hook_lanes SET due_at = NULL, fresh_at = NULL WHERE endpoint_no = ?1
