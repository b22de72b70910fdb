-- Entries of leases that may have held an offset of a partition and whose retention has not ended.
-- ?3 is the current time.
SELECT e.group_id, g.name, e.worker, e.offered_at, e.leased_until, e.ended_at, e.first_offset,
    e.last_offset, e.offsets, e.failed, e.expired, e.released
FROM ledger_entries e JOIN groups g ON g.group_id = e.group_id
WHERE e.partition_id = ?1 AND e.first_offset BETWEEN ?2 - 10000 AND ?2
    AND e.last_offset <= e.first_offset + 10000 AND e.last_offset >= ?2 AND e.expires_at > ?3
UNION ALL
SELECT e.group_id, g.name, e.worker, e.offered_at, e.leased_until, e.ended_at, e.first_offset,
    e.last_offset, e.offsets, e.failed, e.expired, e.released
FROM ledger_entries e JOIN groups g ON g.group_id = e.group_id
WHERE e.partition_id = ?1 AND e.last_offset > e.first_offset + 10000
    AND e.first_offset <= ?2 AND e.last_offset >= ?2 AND e.expires_at > ?3
