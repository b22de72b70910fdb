-- A deleted application with rows that are still to be removed. Uses the index
-- hook_applications_deleted.
SELECT application_no FROM hook_applications INDEXED BY hook_applications_deleted
WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT 1
