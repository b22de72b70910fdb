-- Locks the partitions of a push and decides, for each, whether it can be stored: one row per slot.
-- o_state: 0 yes, 1 another transaction has locked the partition, 2 the partition does not exist
-- (any more), 3 the node knows too little of the partition's transaction ids (dedup_load), 4 some
-- items exist already, or known ones have left the window: the node plans the push again, 5
-- payloads are encrypted and the queue is not, or the other way round, 6 scheduled messages of the
-- partition are due and have to be moved first (scheduled_move), 7 the queue has to be marked first
-- (scheduled_mark), because the push will be held. During maintenance o_end is -2 for messages that
-- are to be held, or -3 if producers are refused; push_store handles both. The mode is read with
-- the locks: a push that finds no maintenance comes after all held messages, which it sees as due.
--
-- Deduplication without an index row per message: a node caches the transaction ids of p_froms to
-- p_tos. Messages after p_tos (written by other nodes) are compared here, under the lock, and
-- returned; so are messages before p_froms that are still within the window (the node has evicted
-- them). The window counts from the clock under the lock, against created_at, inclusive. p_checks:
-- whether ids of a slot may exist at all. p_known_*: items that the node takes for duplicates, with
-- the offsets of their first messages; they are verified here. p_pushing: false if the caller does
-- not push, and compares scheduled messages itself. Lock order: partitions by id (waits only if
-- p_patient).

CREATE OR REPLACE FUNCTION @schema@.push_check(
    p_partitions bigint[], p_checks boolean[], p_froms bigint[], p_tos bigint[],
    p_known_slots integer[], p_known_offsets bigint[], p_known_txns text[],
    p_chunk_slots integer[], p_chunk_txns text[], p_sealed boolean[], p_patient boolean,
    p_pushing boolean DEFAULT true)
RETURNS TABLE (
    o_slot integer, o_state smallint, o_end bigint, o_idle boolean, o_strict boolean,
    o_at timestamptz, o_queue_id integer, o_window bigint, o_wait bigint,
    o_namespace text, o_task text,
    o_known_txns text[], o_known_ids uuid[], o_known_offsets bigint[],
    o_delta_firsts bigint[], o_delta_ats timestamptz[], o_delta_txns text[], o_scheduled boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
    v_seen integer[] := '{}';
    p record;
    v_from timestamptz;
    k record;
BEGIN
    IF p_patient THEN
        PERFORM FROM @schema@.partitions x WHERE x.partition_id = ANY (p_partitions)
        ORDER BY x.partition_id FOR NO KEY UPDATE;
    END IF;
    FOR p IN
        SELECT l.* FROM (
            SELECT u.slot::integer, x.partition_id, x.next_offset, x.idle, x.last_push_at,
                q.queue_id, q.strict_order, q.dedup_window_secs, q.namespace, q.task, q.encrypted,
                q.scheduled,
                (SELECT m.pushes FROM @schema@.maintenance m WHERE m.one) AS mode,
                greatest(q.delay_secs, q.window_secs) AS wait
            FROM unnest(p_partitions) WITH ORDINALITY AS u (partition_id, slot)
            JOIN @schema@.partitions x ON x.partition_id = u.partition_id
            JOIN @schema@.queues q ON q.queue_id = x.queue_id
            ORDER BY x.partition_id
            FOR NO KEY UPDATE OF x SKIP LOCKED
        ) l
    LOOP
        v_now := greatest(@schema@.clock(), p.last_push_at);
        v_seen := v_seen || p.slot;
        o_slot := p.slot; o_state := 0; o_end := p.next_offset; o_idle := p.idle;
        o_strict := p.strict_order; o_at := v_now; o_queue_id := p.queue_id;
        o_window := p.dedup_window_secs; o_wait := p.wait;
        o_namespace := p.namespace; o_task := p.task; o_scheduled := p.scheduled;
        o_known_txns := NULL; o_known_ids := NULL; o_known_offsets := NULL;
        o_delta_firsts := NULL; o_delta_ats := NULL; o_delta_txns := NULL;
        v_from := v_now - make_interval(secs => p.dedup_window_secs);
        IF p_checks[p.slot] AND (p_tos[p.slot] < p.next_offset OR p_froms[p.slot] > 0
            OR p_known_slots <> '{}')
        THEN
            SELECT d.* INTO o_state, o_known_txns, o_known_ids, o_known_offsets,
                o_delta_firsts, o_delta_ats, o_delta_txns
            FROM @schema@.dedup_check(p.slot, p.partition_id, p.next_offset, v_from,
                p_froms[p.slot], p_tos[p.slot], p_known_slots, p_known_offsets, p_known_txns,
                p_chunk_slots, p_chunk_txns) d;
        END IF;
        IF p.mode > 0 THEN
            o_idle := false; o_end := -1 - p.mode;
        END IF;
        IF p_pushing AND p.mode > 0 AND NOT p.scheduled THEN
            o_state := 7;
        ELSIF p.scheduled AND p_pushing THEN
            -- Messages that this transaction itself has scheduled come after those that it pushes.
            IF p.mode = 0 AND EXISTS (SELECT FROM @schema@.scheduled s
                WHERE s.partition_id = p.partition_id AND s.deliver_at <= v_now
                    AND s.xmin <> pg_current_xact_id()::xid)
            THEN
                o_state := 6;
            ELSIF p_checks[p.slot] AND o_state IN (0, 4) THEN
                SELECT x.* INTO k FROM @schema@.scheduled_known(p.slot, p.partition_id,
                    p_known_slots, p_known_offsets, p_known_txns, p_chunk_slots,
                    array_fill(0, ARRAY[cardinality(p_chunk_slots)]), p_chunk_txns, '{}') x;
                o_state := greatest(o_state, k.o_state);
                o_known_txns := o_known_txns || k.o_txns; o_known_ids := o_known_ids || k.o_ids;
                o_known_offsets := o_known_offsets || k.o_offsets;
            END IF;
        END IF;
        IF p.encrypted <> p_sealed[p.slot] THEN
            o_state := 5;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF cardinality(v_seen) < cardinality(p_partitions) THEN
        RETURN QUERY
        SELECT u.slot::integer, CASE WHEN q.queue_id IS NULL THEN 2 ELSE 1 END::smallint,
            NULL::bigint, NULL::boolean, NULL::boolean, NULL::timestamptz, NULL::integer,
            NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::text[], NULL::uuid[],
            NULL::bigint[], NULL::bigint[], NULL::timestamptz[], NULL::text[], NULL::boolean
        FROM unnest(p_partitions) WITH ORDINALITY AS u (partition_id, slot)
        LEFT JOIN @schema@.partitions x ON x.partition_id = u.partition_id
        LEFT JOIN @schema@.queues q ON q.queue_id = x.queue_id
        WHERE u.slot <> ALL (v_seen);
    END IF;
END
$$;
