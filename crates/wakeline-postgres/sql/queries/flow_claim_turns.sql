-- Leases turns to the dispatchers of some lines.
SELECT c.kind, c.code, c.command, c.due_us, t.*, c.now_at AS clock_at
FROM @schema@.flow_claim_turns($1, $2) c
LEFT JOIN LATERAL @schema@.flow_leased_turns(c.ids, c.commands, c.requests, c.now_at) t ON true
