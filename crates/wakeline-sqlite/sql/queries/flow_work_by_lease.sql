-- The activities that are leased under a key, for repeated claims.
SELECT work_id FROM work INDEXED BY work_lease WHERE lease_key = ?1 AND lease_until > ?2
