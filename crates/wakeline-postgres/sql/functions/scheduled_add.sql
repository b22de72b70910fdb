-- Stores messages that are to be delivered later. The first parameters are those of push_slots: the
-- ids are compared in the same way, with those that the partitions contain and those that are
-- scheduled there. p_delays: by item, in how many microseconds it is due; NULL if at a time in
-- p_ats. p_keys: by item, the key of its timer, whose previous message is replaced; or NULL.
-- Returns rows of kind 0, one per slot, as push_slots; state 7: the queue is not marked yet
-- (scheduled_mark); state 8: pushes are refused. If all states are 0, everything was stored, and
-- rows of kind 1 contain, by item, when it is due (created_at), in how many microseconds
-- (wait_secs), and whether it replaced another (state 1). Call it after scheduled_take. Lock order:
-- partitions by id, then scheduled messages.

CREATE OR REPLACE FUNCTION @schema@.scheduled_add(
    p_partitions bigint[], p_lens integer[], p_checks boolean[], p_froms bigint[], p_tos bigint[],
    p_known_slots integer[], p_known_offsets bigint[], p_known_txns text[],
    p_chunk_slots integer[], p_chunk_starts integer[], p_chunk_lens integer[],
    p_chunk_items integer[], p_chunk_txns text[], p_chunk_bodies bytea[],
    p_ids uuid[], p_ends integer[], p_traces uuid[], p_producers text[],
    p_sealed boolean[], p_delays bigint[], p_ats timestamptz[], p_keys text[])
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
    r record;
    k record;
    v_go boolean := true;
    v_now timestamptz;
    w_queue integer[] := array_fill(0, ARRAY[cardinality(p_partitions)]);
BEGIN
    kind := 0;
    FOR r IN SELECT * FROM @schema@.push_check(p_partitions, p_checks, p_froms, p_tos,
        p_known_slots, p_known_offsets, p_known_txns, p_chunk_slots, p_chunk_txns, p_sealed, true,
        false)
    LOOP
        slot := r.o_slot; state := r.o_state; first_offset := r.o_end; created_at := r.o_at;
        window_secs := r.o_window; wait_secs := r.o_wait;
        namespace := r.o_namespace; task := r.o_task; known_txns := r.o_known_txns;
        known_ids := r.o_known_ids; known_offsets := r.o_known_offsets;
        delta_firsts := r.o_delta_firsts; delta_ats := r.o_delta_ats; delta_txns := r.o_delta_txns;
        IF r.o_state IN (0, 4) AND p_checks[r.o_slot] THEN
            SELECT x.* INTO k FROM @schema@.scheduled_known(r.o_slot, p_partitions[r.o_slot],
                p_known_slots, p_known_offsets, p_known_txns, p_chunk_slots, p_chunk_items,
                p_chunk_txns, p_keys) x;
            state := greatest(state, k.o_state);
            known_txns := known_txns || k.o_txns; known_ids := known_ids || k.o_ids;
            known_offsets := known_offsets || k.o_offsets;
        END IF;
        IF r.o_end = -3 THEN
            state := 8;
        ELSIF state = 0 AND NOT r.o_scheduled THEN
            state := 7;
        END IF;
        RETURN NEXT;
        v_go := v_go AND state = 0;
        w_queue[r.o_slot] := r.o_queue_id;
    END LOOP;
    IF NOT v_go THEN
        RETURN;
    END IF;
    v_now := @schema@.clock();
    RETURN QUERY
    WITH item AS (
        SELECT c.item + n - 1 AS ord, c.slot, string_to_array(c.txns, E'\n') AS txns, n,
            CASE WHEN n = 1 THEN 0 ELSE p_ends[c.item + n - 2] END AS body_start, c.body
        FROM unnest(p_chunk_slots, p_chunk_lens, p_chunk_items, p_chunk_txns, p_chunk_bodies)
            AS c (slot, len, item, txns, body)
        CROSS JOIN LATERAL generate_series(1, c.len) AS n
    ), added AS (
        INSERT INTO @schema@.scheduled AS t (queue_id, partition_id, deliver_at, timer_key, id,
            txn_id, trace_id, producer, scheduled_at, payload)
        SELECT w_queue[i.slot], p_partitions[i.slot],
            coalesce(v_now + p_delays[i.ord] * interval '1 microsecond', p_ats[i.ord]),
            p_keys[i.ord], p_ids[i.ord], i.txns[i.n], p_traces[i.ord], p_producers[i.ord], v_now,
            substring(i.body FROM i.body_start + 1 FOR p_ends[i.ord] - i.body_start)
        FROM item i ORDER BY i.ord
        ON CONFLICT (queue_id, timer_key) WHERE timer_key IS NOT NULL DO UPDATE
        SET scheduled_id = excluded.scheduled_id, partition_id = excluded.partition_id,
            deliver_at = excluded.deliver_at, id = excluded.id, txn_id = excluded.txn_id,
            trace_id = excluded.trace_id, producer = excluded.producer,
            scheduled_at = excluded.scheduled_at, payload = excluded.payload
        RETURNING t.id, t.deliver_at, t.xmax <> 0 AS replaced
    )
    SELECT 1::smallint, x.ord::integer, a.replaced::integer::smallint, NULL::bigint, a.deliver_at,
        NULL::bigint,
        ceil(greatest(extract(epoch FROM a.deliver_at - v_now), 0) * 1000000)::bigint,
        NULL::text, NULL::text, NULL::text[], NULL::uuid[], NULL::bigint[], NULL::bigint[],
        NULL::timestamptz[], NULL::text[]
    FROM added a JOIN unnest(p_ids) WITH ORDINALITY AS x (id, ord) ON x.id = a.id;
END
$$;
