-- Advances the store's clock if the machine's clock was set back.
SELECT moved_us, clock_at FROM @schema@.clock_hold($1, $2)
