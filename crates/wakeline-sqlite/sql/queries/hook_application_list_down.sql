-- A page of applications by id, newest first, without those whose own id begins with ?2. Uses the
-- index over the ids.
SELECT application_no, id, uid, name, rate_limit, metadata, created_at, updated_at FROM hook_applications
WHERE id < ?1 AND deleted_at IS NULL AND (uid IS NULL OR ?2 = '' OR substr(uid, 1, length(?2)) <> ?2)
ORDER BY id DESC LIMIT ?3
