-- Notes what is under way of an endpoint as sent or as pulled. What waits is noted when it is leased.
-- Called by: endpoint::update. Walks hook_deliveries_leased.
UPDATE hook_deliveries INDEXED BY hook_deliveries_leased SET pulled = ?2 WHERE state = 'leased' AND endpoint_no = ?1
