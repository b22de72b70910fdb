-- Makes an endpoint gone for everybody who asks for it.
-- Called by: endpoint::remove.
UPDATE hook_endpoints SET deleted_at = ?2, uid = NULL WHERE endpoint_no = ?1
