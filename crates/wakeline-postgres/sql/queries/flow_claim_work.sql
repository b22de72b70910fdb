-- Leases work to the workers of some lines.
SELECT c.kind, c.code, c.command, c.due_us, w.*, c.now_at AS clock_at
FROM @schema@.flow_claim_work($1, $2) c
LEFT JOIN LATERAL @schema@.flow_leased_work(c.ids, c.commands, c.requests, c.now_at) w ON true
