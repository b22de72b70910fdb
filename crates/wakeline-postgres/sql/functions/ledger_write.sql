-- Writes the end of a cursor's lease to the ledger, unless its queue keeps none. It counts the
-- cursor's row, plus what ends the lease: p_failed, p_released, p_expired (NULL: nothing). The
-- caller updates the cursor afterwards. Runs under the cursor's lock. The most common end is
-- written by settle itself.

CREATE OR REPLACE FUNCTION @schema@.ledger_write(
    p_partition bigint, p_group integer, p_failed int8multirange, p_released int8multirange,
    p_expired int8multirange, p_ended timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO @schema@.ledger_entries (partition_id, group_id, first_offset, last_offset,
        lease_token, worker, offered_at, leased_until, ended_at, expires_at, offsets, failed,
        expired, released)
    SELECT c.partition_id, c.group_id, lower(a.offsets), upper(a.offsets) - 1, c.lease_token,
        c.taken_by, c.taken_at, c.lease_until, p_ended,
        p_ended + make_interval(secs => q.ledger_secs), a.offsets,
        nullif(coalesce(c.lease_failed, '{}') + coalesce(p_failed, '{}'), '{}'),
        nullif(coalesce(c.lease_expired, '{}') + coalesce(p_expired, '{}'), '{}'),
        nullif(coalesce(c.lease_released, '{}') + coalesce(p_released, '{}'), '{}')
    FROM @schema@.cursors c
    JOIN @schema@.partitions p ON p.partition_id = c.partition_id
    JOIN @schema@.queues q ON q.queue_id = p.queue_id
    CROSS JOIN LATERAL (SELECT coalesce(c.lease_all, c.lease_set) AS offsets) a
    WHERE c.partition_id = p_partition AND c.group_id = p_group AND q.ledger_secs > 0
        AND c.lease_token IS NOT NULL AND c.taken_at IS NOT NULL;
END
$$;
