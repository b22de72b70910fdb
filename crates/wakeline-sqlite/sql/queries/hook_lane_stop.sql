-- Removes the due times of an endpoint, so that claims skip it.
UPDATE hook_lanes SET due_at = NULL, fresh_at = NULL WHERE endpoint_no = ?1
