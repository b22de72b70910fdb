-- Stores messages that are to be delivered later.
SELECT kind, slot, state, first_offset, created_at, window_secs, wait_secs, namespace, task,
    known_txns, known_ids, known_offsets, delta_firsts, delta_ats, delta_txns
FROM @schema@.scheduled_add($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21, $22)
