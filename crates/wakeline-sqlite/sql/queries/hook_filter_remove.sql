-- Takes a pattern from an endpoint.
-- Called by: endpoint::update, endpoint::remove.
DELETE FROM hook_filters WHERE application_no = ?1 AND pattern = ?2 AND endpoint_no = ?3
