-- An application by the id that its user chose; deleted applications have none.
SELECT application_no, id, uid, name, rate_limit, metadata, created_at, updated_at FROM hook_applications
WHERE uid = ?1
