-- Removes an event type pattern from an endpoint.
DELETE FROM hook_filters WHERE application_no = ?1 AND pattern = ?2 AND endpoint_no = ?3
