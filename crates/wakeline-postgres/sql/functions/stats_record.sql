-- Stores the statistics that a node has counted: its slots replace those that were stored before;
-- the minute of a slot stays. Removes up to 10,000 rows that are older than p_keep (microseconds).
-- p_node_now: the time by the node's clock; lags were measured by that clock, and are corrected
-- here. p_nodes, p_queues: JSON, one object for each slot, and for each slot and queue, by the
-- names of the columns; age is that of the slot in microseconds. Lock order: rows of this node
-- only, in order; then see stats_forget.

CREATE OR REPLACE FUNCTION @schema@.stats_record(
    p_node uuid, p_node_now timestamptz, p_keep bigint, p_nodes text, p_queues text)
RETURNS void
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_skew bigint := (extract(epoch FROM p_node_now - v_now) * 1000000)::bigint;
BEGIN
    INSERT INTO @schema@.node_stats (node, slot, bucket,
        cpu, memory, waiters, store_errors)
    SELECT p_node, x.slot, date_trunc('minute', v_now - x.age * interval '1 microsecond'),
        x.cpu, x.memory, x.waiters, x.store_errors
    FROM json_to_recordset(p_nodes::json) AS x (slot integer, age bigint,
        cpu bigint, memory bigint, waiters bigint, store_errors bigint)
    ORDER BY x.slot
    ON CONFLICT (node, slot) DO UPDATE SET
        cpu = excluded.cpu, memory = excluded.memory, waiters = excluded.waiters, store_errors =
        excluded.store_errors;
    INSERT INTO @schema@.queue_stats (node, slot, queue, bucket,
        push_requests, push_messages, push_duplicates, pop_requests, pop_messages, pop_empty,
        ack_requests, ack_success, ack_failed, dead_letters, transactions, lag_sum, lag_max,
        expired, evicted, dropped, removed, parked)
    SELECT p_node, x.slot, x.queue, date_trunc('minute', v_now - x.age * interval '1 microsecond'),
        x.push_requests, x.push_messages, x.push_duplicates, x.pop_requests, x.pop_messages, x.pop_empty,
        x.ack_requests, x.ack_success, x.ack_failed, x.dead_letters, x.transactions,
        CASE WHEN x.pop_messages > 0
            THEN greatest(x.lag_sum - x.pop_messages * v_skew, 0) ELSE 0 END,
        CASE WHEN x.pop_messages > 0
            THEN greatest(x.lag_max - v_skew, 0) ELSE 0 END,
        x.expired, x.evicted, x.dropped, x.removed, x.parked
    FROM json_to_recordset(p_queues::json) AS x (slot integer, age bigint, queue text,
        push_requests bigint, push_messages bigint, push_duplicates bigint, pop_requests bigint,
        pop_messages bigint, pop_empty bigint, ack_requests bigint, ack_success bigint, ack_failed
        bigint, dead_letters bigint, transactions bigint, lag_sum bigint, lag_max bigint, expired
        bigint, evicted bigint, dropped bigint, removed bigint, parked bigint)
    ORDER BY x.slot, x.queue
    ON CONFLICT (node, slot, queue) DO UPDATE SET
        push_requests = excluded.push_requests, push_messages = excluded.push_messages,
        push_duplicates = excluded.push_duplicates, pop_requests = excluded.pop_requests,
        pop_messages = excluded.pop_messages, pop_empty = excluded.pop_empty, ack_requests =
        excluded.ack_requests, ack_success = excluded.ack_success, ack_failed =
        excluded.ack_failed, dead_letters = excluded.dead_letters, transactions =
        excluded.transactions, lag_sum = excluded.lag_sum, lag_max = excluded.lag_max, expired =
        excluded.expired, evicted = excluded.evicted, dropped = excluded.dropped, removed =
        excluded.removed, parked = excluded.parked;
    PERFORM @schema@.stats_forget(v_now - p_keep * interval '1 microsecond', 10000);
END
$$;
