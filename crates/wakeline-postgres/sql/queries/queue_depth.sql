-- Returns how much a group still has to settle.
SELECT d.name, d.len, d.partitions FROM @schema@.queue_depth($1, $2, $3, $4) d
