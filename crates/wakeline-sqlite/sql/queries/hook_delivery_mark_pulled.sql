-- Changes whether the leased deliveries of an endpoint are marked as pulled. Waiting deliveries get
-- the mark when they are leased. Uses the index hook_deliveries_leased.
UPDATE hook_deliveries INDEXED BY hook_deliveries_leased SET pulled = ?2 WHERE state = 'leased' AND endpoint_no = ?1
