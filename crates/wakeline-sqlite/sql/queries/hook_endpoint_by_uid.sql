-- The number of an endpoint by the id that its user chose; deleted endpoints have none.
SELECT endpoint_no FROM hook_endpoints WHERE application_no = ?1 AND uid = ?2
