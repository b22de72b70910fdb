-- What a request with this idempotency key created, unless the entry has expired.
SELECT print, made FROM hook_keys WHERE scope = ?1 AND application_no = ?2 AND key = ?3 AND expires_at > ?4
