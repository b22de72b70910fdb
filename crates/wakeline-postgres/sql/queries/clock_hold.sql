-- Moves the store's clock on if the machine's was set back. Called by: ClockWatch.
SELECT @schema@.clock_hold($1, $2)
