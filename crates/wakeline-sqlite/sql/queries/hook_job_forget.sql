-- Removes the jobs of a deleted application. Uses the index hook_jobs_application.
DELETE FROM hook_jobs WHERE application_no = ?1
