-- A deleted application that left something behind.
-- Called by: chore::due, chore::tidy. Walks hook_applications_deleted.
SELECT application_no FROM hook_applications INDEXED BY hook_applications_deleted
WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT 1
