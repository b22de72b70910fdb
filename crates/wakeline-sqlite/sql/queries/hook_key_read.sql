-- What a request with this key made, as long as it is remembered.
-- Called by: key::look.
SELECT print, made FROM hook_keys WHERE scope = ?1 AND application_no = ?2 AND key = ?3 AND expires_at > ?4
