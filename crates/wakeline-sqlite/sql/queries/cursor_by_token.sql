-- The cursors that are held under a token.
-- Called by: claim::under_token. Walks cursors_lease.
SELECT partition_id, group_id FROM cursors WHERE lease_token = ?1 ORDER BY partition_id, group_id
