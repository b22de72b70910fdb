-- Commits plain turns.
SELECT c.kind, c.codes, c.lasts, NULL::smallint[], c.command, c.watched, c.due_us, c.what,
    c.activity, w.*
FROM @schema@.flow_commit_plain($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
    $16, $17, $18, $19, $20, $21, $22, $23, $24) c
LEFT JOIN LATERAL @schema@.flow_leased_work(c.ids, c.commands, c.requests, c.now_at) w ON true
