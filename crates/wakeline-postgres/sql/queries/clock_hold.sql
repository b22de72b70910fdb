-- Moves the store's clock on if the machine's was set back. Called by: ClockWatch.
SELECT moved_us, clock_at FROM @schema@.clock_hold($1, $2)
