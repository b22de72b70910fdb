-- A job that is not done.
-- Called by: chore::due. Walks hook_jobs_running.
SELECT job_no FROM hook_jobs INDEXED BY hook_jobs_running WHERE finished_at IS NULL LIMIT 1
