-- When the first of the finished jobs was finished. Uses the index hook_jobs_finished.
SELECT finished_at FROM hook_jobs INDEXED BY hook_jobs_finished
WHERE finished_at IS NOT NULL ORDER BY finished_at LIMIT 1
