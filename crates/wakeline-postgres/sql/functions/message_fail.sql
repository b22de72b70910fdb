-- Applies the verdicts other than completed to messages of one cursor's lease. p_items, p_offsets:
-- which items name which offset; p_txns, p_verdicts, p_errors: by item. Verdicts: 0 is ignored, 1
-- failed, 2 retry, 3 dead letter. Returns the change in the number of the cursor's rows in retries,
-- the offsets that were processed, those that became dead letters, and those that were dropped
-- because the queue keeps none, which are counted in losses. Runs under the cursor's lock.

CREATE OR REPLACE FUNCTION @schema@.message_fail(
    p_partition bigint, p_group integer, p_items integer[], p_offsets bigint[],
    p_txns text[], p_verdicts smallint[], p_errors text[], p_queue @schema@.queues,
    p_now timestamptz,
    OUT o_parked integer, OUT o_named int8multirange, OUT o_dead bigint[],
    OUT o_dropped bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    v_gone bigint[];
    v_count integer;
    v_failures integer[];
    v_errors text[];
BEGIN
    WITH item AS MATERIALIZED (
        SELECT i.message_offset, i.item, p_verdicts[i.item] AS verdict,
            coalesce(r.solo, false) AS solo, coalesce(p_errors[i.item], r.error) AS error,
            coalesce(r.failures, 0) + (p_verdicts[i.item] = 1)::integer AS failures
        FROM unnest(p_items, p_offsets) AS i (item, message_offset)
        LEFT JOIN @schema@.retries r ON r.partition_id = p_partition AND r.group_id = p_group
            AND r.message_offset = i.message_offset
        WHERE p_verdicts[i.item] <> 0
    ), parked AS (
        INSERT INTO @schema@.retries AS r (partition_id, group_id, message_offset, failures,
            due_at, solo, error)
        SELECT p_partition, p_group, i.message_offset, i.failures,
            CASE WHEN i.verdict = 1
                THEN p_now + @schema@.retry_wait(i.failures, p_txns[i.item], p_queue)
            ELSE p_now END, i.solo, i.error
        FROM item i WHERE i.verdict = 2 OR (i.verdict = 1 AND i.failures <= p_queue.retry_limit)
        ON CONFLICT (partition_id, group_id, message_offset) DO UPDATE SET
            failures = excluded.failures, due_at = excluded.due_at, error = excluded.error
        RETURNING xmax = 0 AS fresh
    ), spent AS (
        SELECT i.*, p_queue.dead_letters OR i.verdict = 3 AS kept FROM item i
        WHERE i.verdict = 3 OR (i.verdict = 1 AND i.failures > p_queue.retry_limit)
    )
    SELECT (SELECT count(*) FROM parked WHERE fresh),
        (SELECT range_agg(int8range(i.message_offset, i.message_offset + 1)) FROM item i),
        coalesce(array_agg(s.message_offset), '{}'),
        coalesce(array_agg(s.message_offset ORDER BY s.item) FILTER (WHERE s.kept), '{}'),
        coalesce(array_agg(s.message_offset) FILTER (WHERE NOT s.kept), '{}'),
        array_agg(s.failures ORDER BY s.item) FILTER (WHERE s.kept),
        array_agg(s.error ORDER BY s.item) FILTER (WHERE s.kept)
    INTO o_parked, o_named, v_gone, o_dead, o_dropped, v_failures, v_errors
    FROM spent s;
    IF v_gone <> '{}' THEN
        DELETE FROM @schema@.retries r WHERE r.partition_id = p_partition AND r.group_id = p_group
            AND r.message_offset = ANY (v_gone);
        GET DIAGNOSTICS v_count = ROW_COUNT;
        o_parked := o_parked - v_count;
    END IF;
    IF o_dropped <> '{}' THEN
        INSERT INTO @schema@.losses (queue_id, expired, evicted, dropped)
        VALUES (p_queue.queue_id, 0, 0, cardinality(o_dropped));
    END IF;
    IF o_dead <> '{}' THEN
        PERFORM @schema@.dead_letter_add(p_partition, p_group, o_dead, v_failures, v_errors, p_now);
    END IF;
END
$$;
