-- Inserts a job.
INSERT INTO hook_jobs (id, application_no, kind, filter, place, seen, changed, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, ?6, ?6)
