-- Counts held messages, by an index of only these.
SELECT count(*) FROM @schema@.scheduled s WHERE s.held
