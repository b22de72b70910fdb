-- Whether an id is already that of an attempt that has ended or is in flight. Uses the index over
-- application and id, and hook_deliveries_lease.
SELECT 1 FROM hook_attempts WHERE application_no = ?1 AND id = ?2
UNION ALL
SELECT 1 FROM hook_deliveries INDEXED BY hook_deliveries_lease WHERE lease_key = ?2
LIMIT 1
