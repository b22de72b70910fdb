-- Removes the event type filters of some endpoints of a deleted application.
DELETE FROM hook_filters WHERE (application_no, pattern, endpoint_no) IN (
    SELECT f.application_no, f.pattern, f.endpoint_no FROM hook_filters f WHERE f.application_no = ?1 LIMIT ?2
)
