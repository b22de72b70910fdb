-- Moves a test's clock forward by some microseconds. Called by: PostgresStore::advance_clock.
UPDATE @schema@.test_clock SET shift = shift + $1::bigint * interval '1 microsecond'
