-- Inserts or updates the statistics of a queue on a node for a slot. The minute of an existing row
-- stays.
INSERT INTO queue_stats (node, slot, queue, bucket,
    push_requests, push_messages, push_duplicates, pop_requests, pop_messages, pop_empty,
    ack_requests, ack_success, ack_failed, dead_letters, transactions, lag_sum, lag_max, expired,
    evicted, dropped, removed, parked)
VALUES (?1, ?2, ?3, ?4,
    ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
ON CONFLICT (node, slot, queue) DO UPDATE SET
    push_requests = excluded.push_requests, push_messages = excluded.push_messages,
    push_duplicates = excluded.push_duplicates, pop_requests = excluded.pop_requests, pop_messages
    = excluded.pop_messages, pop_empty = excluded.pop_empty, ack_requests = excluded.ack_requests,
    ack_success = excluded.ack_success, ack_failed = excluded.ack_failed, dead_letters =
    excluded.dead_letters, transactions = excluded.transactions, lag_sum = excluded.lag_sum,
    lag_max = excluded.lag_max, expired = excluded.expired, evicted = excluded.evicted, dropped =
    excluded.dropped, removed = excluded.removed, parked = excluded.parked
