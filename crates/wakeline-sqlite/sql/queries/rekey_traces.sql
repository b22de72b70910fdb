-- Some traces in order, with their data if these are encrypted.
SELECT trace_no, trace_id, CASE WHEN substr(data, 1, 1) = x'01' THEN data END
FROM traces WHERE trace_no > ?1 ORDER BY trace_no LIMIT ?2
