-- Adds an attempt to the log. An existing attempt with the same id stays unchanged, because an
-- error here would block the other deliveries of the claim.
INSERT INTO hook_attempts (application_no, id, endpoint_no, message_no, number, outcome, manual, began_at, took, status,
                           response, error, url)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (application_no, id) DO NOTHING
