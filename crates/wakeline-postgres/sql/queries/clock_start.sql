-- Advances the store's clock to the time when nodes were last active, if the machine's clock was
-- set back while none ran. A node runs it when it starts.
SELECT h.moved_us, h.clock_at
FROM (SELECT max(s.used_at) AS used_at FROM @schema@.function_sets s) s
CROSS JOIN LATERAL @schema@.clock_hold(s.used_at, 0) h
