-- Marks partitions in which a cursor is about to fall asleep, so that the next push wakes it.
-- Returns those that are not locked, with their ends as read under the lock: a cursor may be put to
-- sleep only if it is at the end. A real UPDATE, so that a push that waits for the row sees the
-- mark. Partitions that a push has locked are skipped: their cursors stay due. Under wakeline.awake
-- = on none is marked, because the lock would last as long as the transaction, which is a user's
-- own (pop, ack): pushes would wait for it. A node's next claim does it instead. Lock order: tries
-- partitions, never waits.

CREATE OR REPLACE FUNCTION @schema@.partition_sleep(
    p_partitions bigint[], OUT o_partitions bigint[], OUT o_ends bigint[])
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('wakeline.awake', true) = 'on' THEN
        o_partitions := '{}'; o_ends := '{}';
        RETURN;
    END IF;
    WITH locked AS MATERIALIZED (
        SELECT p.partition_id FROM @schema@.partitions p
        WHERE p.partition_id = ANY (p_partitions)
        FOR NO KEY UPDATE SKIP LOCKED
    ), marked AS (
        UPDATE @schema@.partitions p SET idle = true
        FROM locked WHERE p.partition_id = locked.partition_id
        RETURNING p.partition_id, p.next_offset
    )
    SELECT coalesce(array_agg(m.partition_id), '{}'), coalesce(array_agg(m.next_offset), '{}')
    INTO o_partitions, o_ends FROM marked m;
END
$$;
