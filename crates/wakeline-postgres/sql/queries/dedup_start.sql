-- Returns the offset at which a partition's deduplication window begins, for a node that knows too
-- few of the partition's ids.
SELECT @schema@.offset_since(p.partition_id, p.next_offset,
    @schema@.clock() - make_interval(secs => q.dedup_window_secs))
FROM @schema@.partitions p JOIN @schema@.queues q USING (queue_id)
WHERE p.partition_id = $1
