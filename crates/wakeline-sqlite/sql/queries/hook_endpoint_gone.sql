-- Makes an endpoint of a deleted application gone for everybody who asks for it.
-- Called by: application::stop_some.
UPDATE hook_endpoints SET deleted_at = ?2, uid = NULL WHERE endpoint_no = ?1 AND deleted_at IS NULL
