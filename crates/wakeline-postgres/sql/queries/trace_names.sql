-- Returns the names of traces, the most recently used first.
SELECT x.name, count(*), count(DISTINCT (t.partition_id, t.message_offset)), max(t.created_at)
FROM @schema@.trace_names x
JOIN @schema@.traces t USING (trace_no)
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q USING (queue_id)
GROUP BY x.name ORDER BY max(t.created_at) DESC, x.name LIMIT $1 OFFSET $2
