-- Replaces the data of a trace by the same data encrypted with the current key.
UPDATE traces SET data = ?2 WHERE trace_no = ?1
