-- Forgets the requests that were made for an application that is deleted.
-- Called by: key::forget.
DELETE FROM hook_keys WHERE scope = ?1 AND application_no = ?2
