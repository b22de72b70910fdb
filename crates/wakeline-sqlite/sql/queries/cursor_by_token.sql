-- The cursors that are held under a token, soonest to end first.
-- Called by: claim::under_token. Walks cursors_lease.
SELECT partition_id, group_id FROM cursors WHERE lease_token = ?1 ORDER BY lease_until, partition_id
