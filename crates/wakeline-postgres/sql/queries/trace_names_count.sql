-- Counts the names of traces.
SELECT count(DISTINCT x.name) FROM @schema@.trace_names x
JOIN @schema@.traces t USING (trace_no)
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q USING (queue_id)
