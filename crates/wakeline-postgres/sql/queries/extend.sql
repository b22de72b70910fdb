-- Extends a lease.
SELECT partition_id, group_id, lease_until FROM @schema@.extend($1, $2, $3, $4)
