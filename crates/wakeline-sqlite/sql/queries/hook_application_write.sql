-- Updates an application.
UPDATE hook_applications SET uid = ?2, name = ?3, rate_limit = ?4, metadata = ?5, updated_at = ?6
WHERE application_no = ?1
