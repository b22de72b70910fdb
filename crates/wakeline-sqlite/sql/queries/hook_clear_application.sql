-- Removes a deleted application of which no other rows are left.
DELETE FROM hook_applications WHERE application_no = ?1 AND deleted_at IS NOT NULL
