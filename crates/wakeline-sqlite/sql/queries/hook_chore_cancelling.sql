-- A deleted endpoint for which deliveries wait.
-- Called by: chore::due, chore::work. Walks hook_endpoints_cancelling.
SELECT endpoint_no FROM hook_endpoints INDEXED BY hook_endpoints_cancelling WHERE cancelling = 1 LIMIT 1
