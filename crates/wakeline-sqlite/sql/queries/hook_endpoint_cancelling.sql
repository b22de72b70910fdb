-- Stores whether a deleted endpoint has waiting deliveries that are still to be cancelled.
UPDATE hook_endpoints SET cancelling = ?2 WHERE endpoint_no = ?1 AND cancelling <> ?2
