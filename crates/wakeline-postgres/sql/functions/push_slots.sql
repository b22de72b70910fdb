-- Stores messages: one slot per partition, each of which fails or succeeds separately. Returns one
-- row per slot: see push_check for its states; for stored slots, the offset (-2: held). State 8:
-- pushes of producers are refused. The most common call, one segment for one partition whose ids
-- the node knows, takes a faster path: the same locks and the same writes, in fewer statements.
-- Lock order: partitions by id, without waiting unless p_patient (then by lock_timeout, for a
-- partition that was busy); cursors by (partition, group); tries queues.

CREATE OR REPLACE FUNCTION @schema@.push_slots(
    p_partitions bigint[], p_lens integer[], p_checks boolean[], p_froms bigint[], p_tos bigint[],
    p_known_slots integer[], p_known_offsets bigint[], p_known_txns text[],
    p_chunk_slots integer[], p_chunk_starts integer[], p_chunk_lens integer[],
    p_chunk_items integer[], p_chunk_txns text[], p_chunk_bodies bytea[],
    p_ids uuid[], p_ends integer[], p_traces uuid[], p_producers text[],
    p_sealed boolean[], p_patient boolean)
RETURNS TABLE (
    slot integer, state smallint, first_offset bigint, created_at timestamptz, window_secs bigint,
    wait_secs bigint, namespace text, task text,
    known_txns text[], known_ids uuid[], known_offsets bigint[],
    delta_firsts bigint[], delta_ats timestamptz[], delta_txns text[])
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    r record;
    -- The stored messages, by slot.
    w_first bigint[] := array_fill(-1::bigint, ARRAY[cardinality(p_partitions)]);
    w_at timestamptz[] := array_fill('epoch'::timestamptz, ARRAY[cardinality(p_partitions)]);
    v_stored boolean := false;
    -- The partitions whose cursors may have to be woken.
    i_partition bigint[] := '{}';
    i_queue integer[] := '{}';
    i_wait bigint[] := '{}';
    i_strict boolean[] := '{}';
    v_partition bigint := p_partitions[1];
    v_now timestamptz;
    v_at timestamptz;
BEGIN
    IF cardinality(p_partitions) = 1 AND cardinality(p_chunk_slots) = 1 AND p_known_slots = '{}'
        AND NOT p_patient
    THEN
        SELECT x.next_offset, x.idle, x.last_push_at, q.queue_id, q.strict_order,
            q.dedup_window_secs, q.namespace, q.task, q.encrypted, q.scheduled,
            (SELECT m.pushes FROM @schema@.maintenance m WHERE m.one) AS mode,
            greatest(q.delay_secs, q.window_secs) AS wait
        INTO r
        FROM @schema@.partitions x JOIN @schema@.queues q ON q.queue_id = x.queue_id
        WHERE x.partition_id = v_partition
        FOR NO KEY UPDATE OF x SKIP LOCKED;
        IF FOUND AND r.encrypted = p_sealed[1] AND NOT r.scheduled AND r.mode = 0
            AND (NOT p_checks[1] OR (p_tos[1] >= r.next_offset AND p_froms[1] <= 0))
        THEN
            v_now := @schema@.clock();
            v_at := greatest(v_now, r.last_push_at);
            WITH moved AS (
                UPDATE @schema@.partitions x
                SET next_offset = r.next_offset + p_lens[1], idle = false, last_push_at = v_at
                WHERE x.partition_id = v_partition)
            INSERT INTO @schema@.segments (partition_id, first_offset, len, created_at, ids, ends,
                txn_ids, trace_ids, producers, body)
            VALUES (v_partition, r.next_offset, p_lens[1], v_at, p_ids, p_ends,
                string_to_array(p_chunk_txns[1], E'\n'), nullif(p_traces, '{}'),
                nullif(p_producers, '{}'), p_chunk_bodies[1]);
            IF r.idle AND r.wait > 0 THEN
                PERFORM @schema@.cursor_wake(
                    p_partitions, ARRAY[r.queue_id], ARRAY[r.wait], ARRAY[r.strict_order]);
            ELSIF r.idle THEN
                -- As cursor_wake, which explains why it is a statement of its own. The rows of one
                -- partition are found, and so locked, in the order of the primary key.
                UPDATE @schema@.cursors c SET due_at = v_now
                WHERE c.partition_id = v_partition AND (c.due_at IS NULL
                    OR (c.lease_token IS NULL AND c.due_at > v_now
                        AND NOT (r.strict_order AND c.parked > 0)));
            END IF;
            slot := 1; state := 0; first_offset := r.next_offset; created_at := v_at;
            window_secs := r.dedup_window_secs; wait_secs := r.wait;
            namespace := r.namespace; task := r.task;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    IF p_patient THEN
        PERFORM set_config('lock_timeout', '2s', true);
    END IF;
    FOR r IN SELECT * FROM @schema@.push_check(p_partitions, p_checks, p_froms, p_tos,
        p_known_slots, p_known_offsets, p_known_txns, p_chunk_slots, p_chunk_txns, p_sealed,
        p_patient)
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
        CONTINUE WHEN state <> 0 OR p_lens[r.o_slot] = 0;
        w_first[r.o_slot] := r.o_end; w_at[r.o_slot] := r.o_at; v_stored := true;
        CONTINUE WHEN NOT r.o_idle;
        i_partition := i_partition || p_partitions[r.o_slot]; i_queue := i_queue || r.o_queue_id;
        i_wait := i_wait || r.o_wait; i_strict := i_strict || r.o_strict;
    END LOOP;
    IF v_stored THEN
        PERFORM @schema@.push_store(p_partitions, p_lens, w_first, w_at, p_chunk_slots,
            p_chunk_starts, p_chunk_lens, p_chunk_items, p_chunk_txns, p_chunk_bodies, p_ids, p_ends, p_traces,
            p_producers);
    END IF;
    IF i_partition <> '{}' THEN
        PERFORM @schema@.cursor_wake(i_partition, i_queue, i_wait, i_strict);
    END IF;
END
$$;
