-- Removes leased work and stores the messages to its instances.
SELECT c.kind, c.codes, c.command, c.due_us, c.what, t.*
FROM @schema@.flow_complete($1, $2, $3, $4, $5, $6) c
LEFT JOIN LATERAL @schema@.flow_leased_turns(c.ids, c.commands, c.requests, c.now_at) t ON true
