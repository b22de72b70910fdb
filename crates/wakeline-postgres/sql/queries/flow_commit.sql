-- Commits turns.
SELECT c.kind, c.codes, c.lasts, c.outcomes, c.command, c.watched, c.due_us, c.what, c.activity,
    c.slot, c.state, c.first_offset, c.created_at, c.window_secs, c.wait_secs, c.namespace, c.task,
    c.known_txns, c.known_ids, c.known_offsets, c.delta_firsts, c.delta_ats, c.delta_txns, t.*, w.*
FROM @schema@.flow_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34,
    $35) c
LEFT JOIN LATERAL @schema@.flow_leased_turns(
    CASE WHEN c.kind = 1 THEN c.ids END, c.commands, c.requests, c.now_at) t ON true
LEFT JOIN LATERAL @schema@.flow_leased_work(
    CASE WHEN c.kind = 4 THEN c.ids END, c.commands, c.requests, c.now_at) w ON true
