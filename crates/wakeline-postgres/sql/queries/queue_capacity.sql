-- Returns the capacity of a queue.
SELECT r.len_max, r.partition_len_max, r.lanes, r.len, r.partition_lens
FROM @schema@.queue_capacity($1, $2) r
