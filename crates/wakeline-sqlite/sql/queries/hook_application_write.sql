-- Replaces what can be changed of an application.
-- Called by: application::update.
UPDATE hook_applications SET uid = ?2, name = ?3, rate_limit = ?4, metadata = ?5, updated_at = ?6
WHERE application_no = ?1
