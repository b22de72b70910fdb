-- Disables an endpoint that is gone or fails all the time. Its version stays, because its owner did
-- not change it.
UPDATE hook_endpoints SET disabled = ?2 WHERE endpoint_no = ?1
