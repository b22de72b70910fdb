-- Pushes and settles, completely or not at all. Returns rows of kind 0, one per slot of the push
-- (as push), and of kind 1 (as settle). If a slot has a state other than 0, nothing was written,
-- and the node tries again as after a push (state 8: pushes are refused). If an item names no
-- message, nothing was written, and the rows of kind 1 say which do (see settle). Lock order:
-- partitions by id (waits, by lock_timeout), then all cursors that it settles or may wake by
-- (partition, group), then tries queues. The push comes before the settlement: the other way round
-- deadlocks with pushes.

CREATE OR REPLACE FUNCTION @schema@.transact(
    p_partitions bigint[], p_lens integer[], p_checks boolean[], p_froms bigint[], p_tos bigint[],
    p_known_slots integer[], p_known_offsets bigint[], p_known_txns text[],
    p_chunk_slots integer[], p_chunk_starts integer[], p_chunk_lens integer[],
    p_chunk_items integer[], p_chunk_txns text[], p_chunk_bodies bytea[],
    p_ids uuid[], p_ends integer[], p_traces uuid[], p_producers text[],
    p_sealed boolean[],
    p_settle_partitions bigint[], p_settle_groups text[], p_settle_entries integer[],
    p_settle_tokens uuid[], p_settle_txns text[], p_settle_verdicts smallint[],
    p_settle_errors text[])
RETURNS TABLE (
    kind smallint, slot integer, state smallint, first_offset bigint, created_at timestamptz,
    window_secs bigint, wait_secs bigint, namespace text, task text,
    known_txns text[], known_ids uuid[], known_offsets bigint[],
    delta_firsts bigint[], delta_ats timestamptz[], delta_txns text[],
    entry integer, held bigint, lease_token uuid, strict_fencing boolean, items integer[],
    dead boolean[], queue text, partition text, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    r record;
    v_go boolean := true;
    v_named integer := 0;
    w_first bigint[] := array_fill(-1::bigint, ARRAY[cardinality(p_partitions)]);
    w_at timestamptz[] := array_fill('epoch'::timestamptz, ARRAY[cardinality(p_partitions)]);
    w_partition bigint[] := '{}';
    w_queue integer[] := '{}';
    w_wait bigint[] := '{}';
    w_strict boolean[] := '{}';
BEGIN
    kind := 0;
    FOR r IN SELECT * FROM @schema@.push_check(p_partitions, p_checks, p_froms, p_tos,
        p_known_slots, p_known_offsets, p_known_txns, p_chunk_slots, p_chunk_txns, p_sealed,
        true)
    LOOP
        slot := r.o_slot; state := r.o_state; first_offset := r.o_end; created_at := r.o_at;
        window_secs := r.o_window; wait_secs := r.o_wait;
        namespace := r.o_namespace; task := r.o_task; known_txns := r.o_known_txns;
        known_ids := r.o_known_ids; known_offsets := r.o_known_offsets;
        delta_firsts := r.o_delta_firsts; delta_ats := r.o_delta_ats; delta_txns := r.o_delta_txns;
        IF r.o_end = -3 THEN
            state := 8;
        END IF;
        RETURN NEXT;
        v_go := v_go AND state = 0;
        CONTINUE WHEN r.o_state <> 0 OR p_lens[r.o_slot] = 0;
        w_first[r.o_slot] := r.o_end; w_at[r.o_slot] := r.o_at;
        w_partition := w_partition || p_partitions[r.o_slot];
        w_queue := w_queue || r.o_queue_id; w_wait := w_wait || r.o_wait;
        w_strict := w_strict || r.o_strict;
    END LOOP;
    IF NOT v_go THEN
        RETURN;
    END IF;
    PERFORM FROM (
        SELECT c.partition_id, c.group_id FROM @schema@.cursors c
        WHERE c.partition_id = ANY (w_partition)
        UNION
        SELECT p.partition_id, g.group_id
        FROM unnest(p_settle_partitions, p_settle_groups) AS u (partition_id, group_name)
        JOIN @schema@.partitions p ON p.partition_id = u.partition_id
        JOIN @schema@.groups g ON g.queue_id = p.queue_id AND g.name = u.group_name
    ) n
    JOIN @schema@.cursors c ON c.partition_id = n.partition_id AND c.group_id = n.group_id
    ORDER BY c.partition_id, c.group_id
    FOR NO KEY UPDATE OF c;
    kind := 1; slot := NULL; state := NULL; known_txns := NULL; known_ids := NULL;
    known_offsets := NULL; delta_firsts := NULL; delta_ats := NULL; delta_txns := NULL;
    FOR r IN SELECT s.* FROM @schema@.settle(p_settle_partitions, p_settle_groups,
        p_settle_entries, p_settle_tokens, p_settle_txns, p_settle_verdicts, p_settle_errors,
        true) s
    LOOP
        entry := r.entry; held := r.held; lease_token := r.lease_token; items := r.items;
        strict_fencing := r.strict_fencing; dead := r.dead; queue := r.queue;
        partition := r.partition; namespace := r.namespace; task := r.task; due_us := r.due_us;
        v_named := v_named + coalesce(cardinality(r.items), 0);
        RETURN NEXT;
    END LOOP;
    IF v_named = cardinality(p_settle_entries) AND w_partition <> '{}' THEN
        PERFORM @schema@.push_store(p_partitions, p_lens, w_first, w_at, p_chunk_slots,
            p_chunk_starts, p_chunk_lens, p_chunk_items, p_chunk_txns, p_chunk_bodies, p_ids,
            p_ends, p_traces, p_producers);
        -- All cursors, idle or not: the settlement may just have put a cursor to sleep.
        PERFORM @schema@.cursor_wake(w_partition, w_queue, w_wait, w_strict);
    END IF;
END
$$;
