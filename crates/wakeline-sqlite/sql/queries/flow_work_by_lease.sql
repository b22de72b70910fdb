-- The activities that a key holds.
-- Called by: Line::held, for repeated claims.
SELECT work_id FROM work INDEXED BY work_lease WHERE lease_key = ?1 AND lease_until > ?2
