-- Endpoints of an application, ordered by id, after an id. Uses the index
-- hook_endpoints_application.
SELECT endpoint_no, id FROM hook_endpoints INDEXED BY hook_endpoints_application
WHERE application_no = ?1 AND id > ?2 ORDER BY id LIMIT ?3
