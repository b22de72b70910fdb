-- Forgets the jobs of an application that is deleted.
-- Called by: application::delete. Walks hook_jobs_application.
DELETE FROM hook_jobs WHERE application_no = ?1
