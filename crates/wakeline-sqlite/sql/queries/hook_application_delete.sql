-- Makes an application gone for everybody who asks; its rows go by chores.
-- Called by: application::delete.
UPDATE hook_applications SET deleted_at = ?2, uid = NULL, stop_after = x'' WHERE application_no = ?1
