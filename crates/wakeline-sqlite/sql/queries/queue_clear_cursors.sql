-- Moves all cursors of a queue to the ends of their partitions and ends their leases.
UPDATE cursors
SET next_offset = (SELECT p.next_offset FROM partitions p WHERE p.partition_id = cursors.partition_id),
    due_at = NULL, freed_at = ?2, parked = 0,
    lease_token = NULL, lease_until = NULL, lease_start = NULL, lease_set = NULL,
    lease_all = NULL, lease_failed = NULL, lease_expired = NULL, lease_released = NULL
WHERE partition_id IN (SELECT partition_id FROM partitions WHERE queue_id = ?1)
