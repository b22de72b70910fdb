-- The number of an endpoint by its user's own id; deleted ones have none.
-- Called by: endpoint::find.
SELECT endpoint_no FROM hook_endpoints WHERE application_no = ?1 AND uid = ?2
