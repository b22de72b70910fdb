-- Replaces the headers of an endpoint by the same headers encrypted with the current key.
UPDATE hook_endpoints SET headers = ?2 WHERE endpoint_no = ?1
