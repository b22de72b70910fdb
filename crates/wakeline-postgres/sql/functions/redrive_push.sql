-- Pushes dead letters to a queue and deletes them, completely or not at all. Returns rows of kind
-- 0, one per slot of the push (as push_slots), and one of kind 1 if it was done. If a slot has a
-- state other than 0, nothing was written, and the node tries again as after a push; without any
-- row the job is over, or another transaction has processed a dead letter. Lock order: the job;
-- dead letters by number; partitions by id (waits, by lock_timeout), cursors by (partition, group);
-- tries queues.

CREATE OR REPLACE FUNCTION @schema@.redrive_push(
    p_partitions bigint[], p_lens integer[], p_checks boolean[], p_froms bigint[], p_tos bigint[],
    p_known_slots integer[], p_known_offsets bigint[], p_known_txns text[],
    p_chunk_slots integer[], p_chunk_starts integer[], p_chunk_lens integer[],
    p_chunk_items integer[], p_chunk_txns text[], p_chunk_bodies bytea[],
    p_ids uuid[], p_ends integer[], p_traces uuid[], p_producers text[], p_sealed boolean[],
    p_job uuid, p_numbers bigint[])
RETURNS TABLE (
    kind smallint, slot integer, state smallint, first_offset bigint, created_at timestamptz,
    window_secs bigint, wait_secs bigint, namespace text, task text,
    known_txns text[], known_ids uuid[], known_offsets bigint[],
    delta_firsts bigint[], delta_ats timestamptz[], delta_txns text[])
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    j @schema@.redrives;
    r record;
    v_go boolean := true;
    v_found integer;
    w_first bigint[] := array_fill(-1::bigint, ARRAY[cardinality(p_partitions)]);
    w_at timestamptz[] := array_fill('epoch'::timestamptz, ARRAY[cardinality(p_partitions)]);
    w_partition bigint[] := '{}';
    w_queue integer[] := '{}';
    w_wait bigint[] := '{}';
    w_strict boolean[] := '{}';
BEGIN
    SELECT x.* INTO j FROM @schema@.redrives x WHERE x.job_id = p_job AND x.state = 0 FOR UPDATE;
    SELECT count(*) INTO v_found FROM (
        SELECT FROM @schema@.dead_letters d WHERE d.dead_letter_id = ANY (p_numbers)
        ORDER BY d.dead_letter_id FOR UPDATE) d;
    IF j.number IS NULL OR v_found < cardinality(p_numbers) THEN
        RETURN;
    END IF;
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
        RETURN NEXT;
        v_go := v_go AND r.o_state = 0;
        CONTINUE WHEN r.o_state <> 0 OR p_lens[r.o_slot] = 0;
        w_first[r.o_slot] := r.o_end; w_at[r.o_slot] := r.o_at;
        w_partition := w_partition || p_partitions[r.o_slot];
        w_queue := w_queue || r.o_queue_id; w_wait := w_wait || r.o_wait;
        w_strict := w_strict || r.o_strict;
    END LOOP;
    IF NOT v_go THEN
        RETURN;
    END IF;
    PERFORM @schema@.push_store(p_partitions, p_lens, w_first, w_at, p_chunk_slots,
        p_chunk_starts, p_chunk_lens, p_chunk_items, p_chunk_txns, p_chunk_bodies, p_ids,
        p_ends, p_traces, p_producers);
    PERFORM @schema@.cursor_wake(w_partition, w_queue, w_wait, w_strict);
    DELETE FROM @schema@.dead_letters d WHERE d.dead_letter_id = ANY (p_numbers);
    PERFORM @schema@.redrive_moved(j, (SELECT max(n) FROM unnest(p_numbers) AS n),
        cardinality(p_numbers), cardinality(p_numbers), @schema@.clock());
    kind := 1; slot := NULL; state := NULL;
    RETURN NEXT;
END
$$;
