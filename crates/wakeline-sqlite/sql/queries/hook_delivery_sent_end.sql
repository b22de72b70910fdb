-- When the first lease ends, possibly in the past, over all endpoints to which deliveries are sent.
-- Uses the index hook_deliveries_sent.
SELECT lease_until FROM hook_deliveries INDEXED BY hook_deliveries_sent
WHERE state = 'leased' AND pulled = 0 ORDER BY lease_until LIMIT 1
