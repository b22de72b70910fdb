-- Notes whether deliveries wait for a deleted endpoint that are to be cancelled.
-- Called by: endpoint::cancel_some.
UPDATE hook_endpoints SET cancelling = ?2 WHERE endpoint_no = ?1 AND cancelling <> ?2
