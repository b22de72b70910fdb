-- The cursors that are leased under a token. Uses the index cursors_lease.
SELECT partition_id, group_id FROM cursors WHERE lease_token = ?1 ORDER BY partition_id, group_id
