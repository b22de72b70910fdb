-- A running job, if there is one. Uses the index hook_jobs_running.
SELECT job_no FROM hook_jobs INDEXED BY hook_jobs_running WHERE finished_at IS NULL LIMIT 1
