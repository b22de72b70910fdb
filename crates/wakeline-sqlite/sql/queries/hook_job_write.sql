-- Stores the progress of a job.
UPDATE hook_jobs
SET place = ?2, place_endpoint = ?3, seen = ?4, changed = ?5, updated_at = ?6, finished_at = ?7
WHERE job_no = ?1
