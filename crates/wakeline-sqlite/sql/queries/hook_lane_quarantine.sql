-- Moves the due time of an endpoint with a corrupt row into the future, so that claims skip it.
UPDATE hook_lanes SET due_at = ?2, fresh_at = ?2 WHERE endpoint_no = ?1
