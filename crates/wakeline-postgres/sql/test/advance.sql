-- Moves a test's clock forward by some microseconds.
UPDATE @schema@.test_clock SET shift = shift + $1::bigint * interval '1 microsecond'
