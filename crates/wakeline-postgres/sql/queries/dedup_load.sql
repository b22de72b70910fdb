-- Returns a page of the transaction ids of a partition, beginning with an offset. A node runs it
-- after dedup_start.
SELECT first_offset, created_at, array_to_string(txn_ids, E'\n')
FROM @schema@.segments WHERE partition_id = $1 AND first_offset >= $2
ORDER BY first_offset LIMIT 500
