-- Moves the store's clock on to where it was when nodes were last seen, if the machine's was set back
-- while none ran. Called by: ClockWatch, when a node starts.
SELECT @schema@.clock_hold(max(s.used_at), 0) FROM @schema@.function_sets s
