-- Marks the deliveries of an endpoint that are in flight as cancelled, so that no further attempt
-- follows. Uses the index hook_deliveries_leased.
UPDATE hook_deliveries INDEXED BY hook_deliveries_leased SET cancelled = 1, updated_at = ?2
WHERE state = 'leased' AND endpoint_no = ?1
