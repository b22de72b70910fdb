-- Returns some traces in order, with their data if these are encrypted.
SELECT t.trace_no, t.trace_id, CASE WHEN substring(t.data FOR 1) = '\x01' THEN t.data END
FROM @schema@.traces t WHERE t.trace_no > $1 ORDER BY t.trace_no LIMIT $2
