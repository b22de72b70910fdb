-- Forgets keys of an endpoint that sign no more.
-- Called by: secret::rotate.
DELETE FROM hook_secrets WHERE endpoint_no = ?1 AND expires_at <= ?2
