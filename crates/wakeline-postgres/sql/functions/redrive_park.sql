-- Returns dead letters to the groups that gave them up: each is parked with its cursor, due now,
-- with no failures counted. Messages that the group will read anyway (after a seek) are skipped,
-- unless they were deleted. Returns the numbers of those that will be delivered; the others have no
-- cursor or no message any more. Also returns whom to notify. Lock order: cursors by (partition,
-- group); then tries queues and partitions.

CREATE OR REPLACE FUNCTION @schema@.redrive_park(
    p_numbers bigint[], p_partitions bigint[], p_groups text[], p_offsets bigint[],
    p_errors text[],
    OUT o_done bigint[], OUT o_partitions bigint[], OUT o_groups integer[],
    OUT o_dues timestamptz[])
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_now timestamptz;
    v_fresh integer;
    x_partition bigint[] := '{}';
    x_group integer[] := '{}';
    x_next bigint[] := '{}';
    x_parked integer[] := '{}';
BEGIN
    o_done := '{}';
    FOR c IN
        SELECT k.partition_id, k.group_id, k.next_offset, k.parked, k.lease_token, k.lease_set,
            x.numbers, x.offsets, x.errors
        FROM (
            SELECT l.partition_id, l.group_name, array_agg(l.number) AS numbers,
                array_agg(l.message_offset) AS offsets, array_agg(l.error) AS errors
            FROM unnest(p_numbers, p_partitions, p_groups, p_offsets, p_errors)
                AS l (number, partition_id, group_name, message_offset, error)
            GROUP BY l.partition_id, l.group_name
        ) x
        JOIN @schema@.partitions p ON p.partition_id = x.partition_id
        JOIN @schema@.groups g ON g.queue_id = p.queue_id AND g.name = x.group_name
        JOIN @schema@.cursors k ON k.partition_id = p.partition_id AND k.group_id = g.group_id
        ORDER BY k.partition_id, k.group_id FOR NO KEY UPDATE OF k
    LOOP
        v_now := @schema@.clock();
        WITH letter AS MATERIALIZED (
            SELECT l.number, l.message_offset, l.error,
                l.message_offset >= c.next_offset
                    OR coalesce(c.lease_set @> l.message_offset, false) AS ahead,
                coalesce(s.last > l.message_offset, false) AS stored
            FROM unnest(c.numbers, c.offsets, c.errors) AS l (number, message_offset, error)
            LEFT JOIN LATERAL (
                SELECT s.first_offset + s.len AS last FROM @schema@.segments s
                WHERE s.partition_id = c.partition_id AND s.first_offset <= l.message_offset
                ORDER BY s.first_offset DESC LIMIT 1
            ) s ON true
        ), parked AS (
            INSERT INTO @schema@.retries (partition_id, group_id, message_offset, failures,
                due_at, solo, error)
            SELECT c.partition_id, c.group_id, l.message_offset, 0, v_now, false, l.error
            FROM letter l WHERE l.stored AND NOT l.ahead
            ON CONFLICT DO NOTHING
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM parked),
            o_done || coalesce(array_agg(l.number) FILTER (WHERE l.stored), '{}')
        INTO v_fresh, o_done FROM letter l;
        CONTINUE WHEN v_fresh = 0;
        IF c.lease_token IS NOT NULL THEN
            UPDATE @schema@.cursors k SET parked = c.parked + v_fresh
            WHERE k.partition_id = c.partition_id AND k.group_id = c.group_id;
        ELSE
            x_partition := x_partition || c.partition_id; x_group := x_group || c.group_id;
            x_next := x_next || c.next_offset; x_parked := x_parked || c.parked + v_fresh;
        END IF;
    END LOOP;
    SELECT coalesce(array_agg(x_partition[e.ord]), '{}'), coalesce(array_agg(x_group[e.ord]), '{}'),
        coalesce(array_agg(e.due_at), '{}')
    INTO o_partitions, o_groups, o_dues
    FROM @schema@.lease_end(x_partition, x_group, x_next, x_parked, @schema@.clock()) e
    WHERE e.due_at IS NOT NULL;
END
$$;
