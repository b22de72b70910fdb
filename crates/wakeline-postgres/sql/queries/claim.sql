-- Leases messages to the requests of some lines.
SELECT line, request, state, next_due_us, clock_at, hand_over, partition_id, group_id, queue,
    partition, namespace, task, lease_us, retry_offsets, retry_failures, first_offset, created_at, ids, txn_ids,
    trace_ids, producers, body_start, ends, body
FROM @schema@.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21)
