-- Keeps an attempt.
-- Called by: attempt::log, attempt::log_unknown.
INSERT INTO hook_attempts (application_no, id, endpoint_no, message_no, number, outcome, manual, began_at, took, status,
                           response, error, url)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
