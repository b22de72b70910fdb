-- Some endpoints in order, with their encrypted headers.
SELECT endpoint_no, id, headers FROM hook_endpoints WHERE endpoint_no > ?1 ORDER BY endpoint_no LIMIT ?2
