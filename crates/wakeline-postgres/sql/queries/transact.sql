-- Pushes and settles, completely or not at all.
SELECT kind, slot, state, first_offset, created_at, window_secs, wait_secs, namespace, task,
    known_txns, known_ids, known_offsets, delta_firsts, delta_ats, delta_txns,
    entry, held, lease_token, strict_fencing, items, dead, queue, partition, namespace, task, due_us
FROM @schema@.transact($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
    $18, $19, $20, $21, $22, $23, $24, $25, $26)
