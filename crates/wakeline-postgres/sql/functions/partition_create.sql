-- Creates missing queues and partitions, in a transaction of its own, before a push needs them. A
-- new queue gets its partition Default and the groups whose recorded subscriptions it matches; a
-- new partition gets a cursor for every group of its queue. Returns all their ids. p_namespaces,
-- p_tasks: for new queues. The pairs are distinct and ordered by queue and partition. p_producer:
-- it is for a producer's push. While pushes are refused nothing is created for it; if something is
-- missing then, the only row has no partition. Lock order: catalog FOR SHARE if a queue is missing;
-- queues FOR SHARE by id, so that a group that is being created sees the partition or is seen by
-- it; new partitions by name.

CREATE OR REPLACE FUNCTION @schema@.partition_create(
    p_queues text[], p_namespaces text[], p_tasks text[], p_partitions text[], p_producer boolean)
RETURNS TABLE (ord integer, partition_id bigint)
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_queues integer[];
    v_new integer[];
BEGIN
    IF p_producer AND (SELECT m.pushes FROM @schema@.maintenance m WHERE m.one) = 2
        AND EXISTS (SELECT FROM unnest(p_queues, p_partitions) AS x (queue, partition)
            WHERE NOT EXISTS (SELECT FROM @schema@.queues q
                JOIN @schema@.partitions p ON p.queue_id = q.queue_id AND p.name = x.partition
                WHERE q.name = x.queue))
    THEN
        ord := 1;
        RETURN NEXT;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM unnest(p_queues) AS x (name)
        WHERE NOT EXISTS (SELECT FROM @schema@.queues q WHERE q.name = x.name))
    THEN
        PERFORM FROM @schema@.catalog FOR SHARE;
        v_now := @schema@.clock();
        WITH made AS (
            INSERT INTO @schema@.queues (name, namespace, task, created_at)
            SELECT DISTINCT ON (x.name COLLATE "C") x.name, x.namespace, x.task, v_now
            FROM unnest(p_queues, p_namespaces, p_tasks) AS x (name, namespace, task)
            ORDER BY x.name COLLATE "C"
            ON CONFLICT (name) DO NOTHING
            RETURNING queue_id
        )
        SELECT array_agg(m.queue_id) INTO v_new FROM made m;
        INSERT INTO @schema@.partitions (queue_id, name)
        SELECT x.queue_id, 'Default' FROM unnest(v_new) AS x (queue_id) ORDER BY x.queue_id;
        INSERT INTO @schema@.groups
            (queue_id, name, mode, from_at, created_at, polled_at, settled)
        SELECT DISTINCT ON (q.queue_id, s.group_name)
            q.queue_id, s.group_name, s.mode, s.from_at, s.created_at, v_now, false
        FROM @schema@.queues q
        JOIN @schema@.subscriptions s ON s.queue = q.name OR (s.queue IS NULL
            AND (s.namespace IS NULL OR s.namespace = q.namespace)
            AND (s.task IS NULL OR s.task = q.task))
        WHERE q.queue_id = ANY (v_new)
        ORDER BY q.queue_id, s.group_name, s.subscription_id;
        INSERT INTO @schema@.cursors (partition_id, group_id)
        SELECT p.partition_id, g.group_id
        FROM @schema@.partitions p JOIN @schema@.groups g ON g.queue_id = p.queue_id
        WHERE p.queue_id = ANY (v_new)
        ORDER BY p.partition_id, g.group_id;
        DELETE FROM @schema@.subscriptions s USING @schema@.queues q
        WHERE q.queue_id = ANY (v_new) AND s.queue = q.name;
    END IF;
    SELECT array_agg(l.queue_id) INTO v_queues FROM (
        SELECT q.queue_id FROM @schema@.queues q WHERE q.name = ANY (p_queues)
        ORDER BY q.queue_id FOR SHARE) l;
    WITH made AS (
        INSERT INTO @schema@.partitions (queue_id, name)
        SELECT q.queue_id, x.partition
        FROM unnest(p_queues, p_partitions) AS x (queue, partition)
        JOIN @schema@.queues q ON q.name = x.queue AND q.queue_id = ANY (v_queues)
        WHERE NOT EXISTS (SELECT FROM @schema@.partitions p
            WHERE p.queue_id = q.queue_id AND p.name = x.partition)
        ORDER BY q.queue_id, x.partition COLLATE "C"
        ON CONFLICT (queue_id, name) DO NOTHING
        RETURNING partition_id, queue_id
    )
    INSERT INTO @schema@.cursors (partition_id, group_id)
    SELECT m.partition_id, g.group_id FROM made m JOIN @schema@.groups g ON g.queue_id = m.queue_id
    ORDER BY m.partition_id, g.group_id;
    RETURN QUERY
    SELECT x.ord::integer, p.partition_id
    FROM unnest(p_queues, p_partitions) WITH ORDINALITY AS x (queue, partition, ord)
    JOIN @schema@.queues q ON q.name = x.queue
    JOIN @schema@.partitions p ON p.queue_id = q.queue_id AND p.name = x.partition;
END
$$;
