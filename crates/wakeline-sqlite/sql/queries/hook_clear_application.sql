-- Removes a deleted application of which nothing is left.
-- Called by: chore::forget_if_empty.
DELETE FROM hook_applications WHERE application_no = ?1 AND deleted_at IS NOT NULL
