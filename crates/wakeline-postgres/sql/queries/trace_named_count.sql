-- Counts the traces of a name.
SELECT count(*) FROM @schema@.trace_names x
JOIN @schema@.traces t USING (trace_no)
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q USING (queue_id)
WHERE x.name = $1
