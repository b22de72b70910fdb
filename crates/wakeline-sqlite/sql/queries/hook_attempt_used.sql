-- Whether an id is that of an attempt which has ended, or is under way.
-- Called by: attempt::is_used. Looks into the index over application and id, and into hook_deliveries_lease.
SELECT 1 FROM hook_attempts WHERE application_no = ?1 AND id = ?2
UNION ALL
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_lease WHERE lease_key = ?2
LIMIT 1
