-- Replaces headers by the same, sealed anew.
UPDATE hook_endpoints SET headers = ?2 WHERE endpoint_no = ?1
