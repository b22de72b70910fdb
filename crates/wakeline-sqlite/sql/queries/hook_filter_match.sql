-- The endpoints of an application that have a pattern. Runs once for each pattern that matches an
-- event type.
SELECT endpoint_no FROM hook_filters WHERE application_no = ?1 AND pattern = ?2
