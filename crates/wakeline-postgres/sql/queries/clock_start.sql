-- Moves the store's clock on to where it was when nodes were last seen, if the machine's was set back
-- while none ran. Called by: ClockWatch, when a node starts.
SELECT h.moved_us, h.clock_at
FROM (SELECT max(s.used_at) AS used_at FROM @schema@.function_sets s) s
CROSS JOIN LATERAL @schema@.clock_hold(s.used_at, 0) h
