-- Adds an entry for a lease that has ended.
INSERT INTO ledger_entries (partition_id, group_id, first_offset, last_offset, lease_token, worker,
    offered_at, leased_until, ended_at, expires_at, offsets, failed, expired, released)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
