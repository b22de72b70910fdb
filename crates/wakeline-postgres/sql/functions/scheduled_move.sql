-- Assigns due scheduled messages their offsets, as one push per partition in the order in which
-- they became due, and wakes the cursors. At most 1,000 messages or about 16 MB a call: call it
-- until it has moved none. moved: their number; busy: some partitions are locked by other
-- transactions and were skipped (unless p_patient: then it waits for them, by lock_timeout). Moves
-- nothing while maintenance holds pushes. p_kind to p_task: those of a line, as in claim; with kind
-- 3 those of p_partitions. A message is deleted here and stored by the same statement, so it is
-- delivered once; if it is cancelled concurrently, either the cancellation comes first (and it is
-- not stored), or the canceller does not find it any more. A node calls it when a push, a claim or
-- a transaction has found due messages. Lock order: partitions by id, their scheduled messages,
-- cursors by (partition, group); tries queues.

CREATE OR REPLACE FUNCTION @schema@.scheduled_move(
    p_kind smallint, p_queue text, p_partition text, p_namespace text, p_task text,
    p_partitions bigint[], p_patient boolean, OUT moved integer,
    OUT busy boolean)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_want bigint[];
    l record;
    v_due bigint[];
    w_partition bigint[];
    w_queue integer[];
    w_wait bigint[];
    w_strict boolean[];
BEGIN
    moved := 0; busy := false;
    IF (SELECT m.pushes FROM @schema@.maintenance m WHERE m.one) > 0 THEN
        RETURN;
    END IF;
    IF p_kind = 1 THEN
        SELECT array_agg(p.partition_id) INTO p_partitions
        FROM @schema@.queues q JOIN @schema@.partitions p ON p.queue_id = q.queue_id
        WHERE q.name = p_queue AND p.name = p_partition;
    END IF;
    IF p_kind IN (0, 2) THEN
        SELECT array_agg(DISTINCT d.partition_id) INTO v_want
        FROM @schema@.queues q
        CROSS JOIN LATERAL (
            SELECT s.partition_id FROM @schema@.scheduled s
            WHERE s.queue_id = q.queue_id AND s.deliver_at <= v_now
            ORDER BY s.deliver_at, s.scheduled_id LIMIT 1000) d
        WHERE q.scheduled AND CASE WHEN p_kind = 0 THEN q.name = p_queue
            ELSE (p_namespace IS NULL OR q.namespace = p_namespace)
                AND (p_task IS NULL OR q.task = p_task) END;
    ELSE
        -- By the clock that push_check uses, which does not run backwards within a partition.
        SELECT array_agg(p.partition_id) INTO v_want FROM unnest(p_partitions) AS x (partition_id)
        JOIN @schema@.partitions p ON p.partition_id = x.partition_id
        WHERE @schema@.scheduled_next(NULL, p.partition_id) <= greatest(v_now, p.last_push_at);
    END IF;
    IF v_want IS NULL THEN
        RETURN;
    END IF;
    IF p_patient THEN
        PERFORM set_config('lock_timeout', '2s', true);
        PERFORM FROM @schema@.partitions p WHERE p.partition_id = ANY (v_want)
        ORDER BY p.partition_id FOR NO KEY UPDATE;
    END IF;
    SELECT array_agg(x.partition_id) AS partitions, array_agg(x.next_offset) AS ends,
        array_agg(x.last_push_at) AS pushed
    INTO l
    FROM (
        SELECT p.partition_id, p.next_offset, p.last_push_at FROM @schema@.partitions p
        WHERE p.partition_id = ANY (v_want)
        ORDER BY p.partition_id FOR NO KEY UPDATE SKIP LOCKED) x;
    busy := coalesce(cardinality(l.partitions), 0) < cardinality(v_want);
    v_now := @schema@.clock();
    SELECT array_agg(d.scheduled_id) INTO v_due
    FROM (
        SELECT s.scheduled_id, sum(octet_length(s.payload)) OVER w - octet_length(s.payload)
            AS before
        FROM unnest(l.partitions, l.pushed) AS x (partition_id, pushed)
        CROSS JOIN LATERAL (
            SELECT s.* FROM @schema@.scheduled s
            WHERE s.partition_id = x.partition_id AND s.deliver_at <= greatest(v_now, x.pushed)
            ORDER BY s.deliver_at, s.scheduled_id LIMIT 1000) s
        WINDOW w AS (ORDER BY s.deliver_at, s.scheduled_id)
        ORDER BY s.deliver_at, s.scheduled_id LIMIT 1000
    ) d WHERE d.before < 16777216;
    IF v_due IS NULL THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM @schema@.scheduled s WHERE s.scheduled_id = ANY (v_due) RETURNING s.*
    ), placed AS (
        SELECT g.*, row_number() OVER o AS n,
            (sum(octet_length(g.payload)) OVER o - octet_length(g.payload)) / 65536 AS part,
            -- Encrypted and plain payloads are kept in separate segments.
            (get_byte(g.payload, 0) = 1) IS DISTINCT FROM
                (lag(get_byte(g.payload, 0)) OVER o = 1) AS turns
        FROM gone g
        WINDOW o AS (PARTITION BY g.partition_id ORDER BY g.deliver_at, g.scheduled_id)
    ), parted AS (
        SELECT p.*, (p.n - 1) / 100 AS hundred, count(*) FILTER (WHERE p.turns) OVER (
            PARTITION BY p.partition_id ORDER BY p.n) AS turn
        FROM placed p
    ), cut AS (
        SELECT p.*, sum(octet_length(p.payload)) OVER (
            PARTITION BY p.partition_id, p.hundred, p.part, p.turn ORDER BY p.n) AS body_end
        FROM parted p
    ), held AS (
        SELECT x.*, greatest(v_now, x.pushed) AS at
        FROM unnest(l.partitions, l.ends, l.pushed) AS x (partition_id, log_end, pushed)
    ), stored AS (
        INSERT INTO @schema@.segments (partition_id, first_offset, len, created_at, ids, ends,
            txn_ids, trace_ids, producers, body)
        SELECT c.partition_id, h.log_end + min(c.n) - 1, count(*)::integer, h.at,
            array_agg(c.id ORDER BY c.n), array_agg(c.body_end::integer ORDER BY c.n),
            array_agg(c.txn_id::text ORDER BY c.n),
            CASE WHEN bool_or(c.trace_id IS NOT NULL) THEN array_agg(c.trace_id ORDER BY c.n) END,
            CASE WHEN bool_or(c.producer IS NOT NULL) THEN array_agg(c.producer ORDER BY c.n) END,
            string_agg(c.payload, ''::bytea ORDER BY c.n)
        FROM cut c JOIN held h ON h.partition_id = c.partition_id
        GROUP BY c.partition_id, c.hundred, c.part, c.turn, h.log_end, h.at
    ), ahead AS (
        UPDATE @schema@.partitions p
        SET next_offset = h.log_end + c.len, idle = false, last_push_at = h.at
        FROM (SELECT g.partition_id, count(*) AS len FROM gone g GROUP BY g.partition_id) c
        JOIN held h ON h.partition_id = c.partition_id
        WHERE p.partition_id = c.partition_id
        RETURNING p.partition_id, p.queue_id
    )
    SELECT (SELECT count(*) FROM gone), array_agg(a.partition_id ORDER BY a.partition_id),
        array_agg(a.queue_id ORDER BY a.partition_id)
    INTO moved, w_partition, w_queue
    FROM ahead a;
    IF moved = 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(greatest(q.delay_secs, q.window_secs) ORDER BY x.ord),
        array_agg(q.strict_order ORDER BY x.ord)
    INTO w_wait, w_strict
    FROM unnest(w_queue) WITH ORDINALITY AS x (queue_id, ord)
    LEFT JOIN @schema@.queues q ON q.queue_id = x.queue_id;
    -- All cursors, idle or not: only a partition's own push distinguishes an idle one.
    PERFORM @schema@.cursor_wake(w_partition, w_queue, w_wait, w_strict);
END
$$;
