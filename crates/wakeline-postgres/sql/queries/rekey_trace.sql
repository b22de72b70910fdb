-- Replaces the data of a trace by the same data, encrypted with the active key.
UPDATE @schema@.traces SET data = $2 WHERE trace_no = $1
RETURNING true
