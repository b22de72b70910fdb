-- Marks an endpoint as deleted, so that no request finds it.
UPDATE hook_endpoints SET deleted_at = ?2, uid = NULL WHERE endpoint_no = ?1
