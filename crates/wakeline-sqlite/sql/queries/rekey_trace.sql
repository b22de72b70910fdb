-- Replaces the data of a trace by the same, sealed anew.
UPDATE traces SET data = ?2 WHERE trace_no = ?1
