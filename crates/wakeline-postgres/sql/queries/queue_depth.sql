-- How much a group has yet to settle. Called by: QueueTallies::depth.
SELECT d.name, d.len, d.partitions FROM @schema@.queue_depth($1, $2, $3, $4) d
