-- Updates an endpoint and increments its version.
UPDATE hook_endpoints
SET uid = ?2, url = ?3, description = ?4, event_types = ?5, channels = ?6, disabled = ?7, metadata = ?8, headers = ?9,
    options = ?10, version = version + 1, updated_at = ?11
WHERE endpoint_no = ?1
