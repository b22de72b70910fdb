-- A deleted endpoint whose waiting deliveries are still to be cancelled. Uses the index
-- hook_endpoints_cancelling.
SELECT endpoint_no FROM hook_endpoints INDEXED BY hook_endpoints_cancelling WHERE cancelling = 1 LIMIT 1
