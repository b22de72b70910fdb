-- How much room a queue has. Called by: QueueRoom::room.
SELECT r.len_max, r.partition_len_max, r.lanes, r.len, r.partition_lens
FROM @schema@.queue_room($1, $2) r
