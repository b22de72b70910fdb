-- Removes jobs that were finished at or before a time. Uses the index hook_jobs_finished.
DELETE FROM hook_jobs WHERE job_no IN (
    SELECT job_no FROM hook_jobs INDEXED BY hook_jobs_finished
    WHERE finished_at IS NOT NULL AND finished_at <= ?1 ORDER BY finished_at LIMIT ?2
)
