-- Marks an application as deleted, so that no request finds it. Background work removes its rows.
UPDATE hook_applications SET deleted_at = ?2, uid = NULL, stop_after = x'' WHERE application_no = ?1
