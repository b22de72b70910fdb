-- Continues a due job by at most p_rows dead letters; returns messages to their groups, and deletes
-- those dead letters in the same transaction. Dead letters that go to another queue are only read:
-- redrive_push moves them. Returns one row of kind 0: how many it processed, and the microseconds
-- until the next batch is due; one of kind 1 per cursor that has something now; and one of kind 2
-- per dead letter to push. Lock order: the job, without waiting; dead letters by number; cursors by
-- (partition, group); then tries queues and partitions.

CREATE OR REPLACE FUNCTION @schema@.redrive_go(p_rows integer)
RETURNS TABLE (
    kind smallint, rows bigint, due_us bigint, queue text, partition text, namespace text,
    task text, group_name text, job uuid, number bigint, id uuid, trace_id uuid,
    producer text, payload bytea)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := @schema@.clock();
    j @schema@.redrives;
    v_letters @schema@.dead_letters[];
    v_most integer;
    v_due timestamptz;
    g record;
BEGIN
    SELECT r.* INTO j FROM @schema@.redrives r WHERE r.state = 0 AND r.due_at <= v_now
    ORDER BY r.due_at, r.number LIMIT 1 FOR UPDATE SKIP LOCKED;
    rows := 0;
    IF j.number IS NOT NULL THEN
        v_most := CASE WHEN j.rate IS NULL THEN p_rows
            ELSE least(greatest(j.rate / 10, 1), greatest(p_rows, 1)) END;
        SELECT coalesce(array_agg(d), '{}') INTO v_letters
        FROM @schema@.redrive_letters(j, v_most) d;
        rows := cardinality(v_letters);
        IF j.to_queue IS NOT NULL AND cardinality(v_letters) > 0 THEN
            RETURN QUERY
            SELECT 2::smallint, NULL::bigint, NULL::bigint, j.to_queue, d.partition::text,
                NULL::text, NULL::text, NULL::text, j.job_id, d.dead_letter_id, d.id,
                d.trace_id, d.producer, d.payload
            FROM unnest(v_letters) AS d;
        ELSE
            SELECT p.* INTO g FROM @schema@.redrive_park(
                ARRAY(SELECT d.dead_letter_id FROM unnest(v_letters) AS d),
                ARRAY(SELECT d.partition_id FROM unnest(v_letters) AS d),
                ARRAY(SELECT d.group_name::text FROM unnest(v_letters) AS d),
                ARRAY(SELECT d.message_offset FROM unnest(v_letters) AS d),
                ARRAY(SELECT d.error FROM unnest(v_letters) AS d)) p;
            DELETE FROM @schema@.dead_letters d WHERE d.dead_letter_id = ANY (g.o_done);
            PERFORM @schema@.redrive_moved(j,
                coalesce(v_letters[cardinality(v_letters)].dead_letter_id, j.place),
                cardinality(v_letters), cardinality(g.o_done), v_now);
            RETURN QUERY
            SELECT 1::smallint, NULL::bigint,
                greatest(ceil(extract(epoch FROM x.due_at - v_now) * 1000000), 0)::bigint,
                q.name::text, p.name::text, q.namespace::text, q.task::text, s.name::text,
                NULL::uuid, NULL::bigint, NULL::uuid, NULL::uuid, NULL::text, NULL::bytea
            FROM unnest(g.o_partitions, g.o_groups, g.o_dues) AS x (partition_id, group_id, due_at)
            JOIN @schema@.partitions p ON p.partition_id = x.partition_id
            JOIN @schema@.queues q ON q.queue_id = p.queue_id
            JOIN @schema@.groups s ON s.group_id = x.group_id;
        END IF;
    END IF;
    SELECT r.due_at INTO v_due FROM @schema@.redrives r WHERE r.state = 0
    ORDER BY r.due_at LIMIT 1;
    kind := 0;
    due_us := CASE WHEN v_due IS NOT NULL
        THEN greatest(ceil(extract(epoch FROM v_due - v_now) * 1000000), 0) END;
    -- Work that is due but was not done is locked by another node.
    IF due_us = 0 AND j.number IS NULL THEN
        due_us := 100000;
    END IF;
    RETURN NEXT;
END
$$;
