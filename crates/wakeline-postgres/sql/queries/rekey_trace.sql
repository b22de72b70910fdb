-- Replaces the data of a trace by the same, sealed anew. Called by: KeyedStore::rekey.
UPDATE @schema@.traces SET data = $2 WHERE trace_no = $1
RETURNING true
