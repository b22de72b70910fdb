-- Messages that were deleted one by one leave gaps in their partition's log: its segments do not
-- follow on each other there any more.
--
-- No cursor stands in a gap: whoever moves one puts it behind. So something is unread if and only
-- if a cursor stands before the end of its log, and its next_offset names a message.

ALTER TABLE @schema@.partitions ADD gaps int8multirange;
COMMENT ON COLUMN @schema@.partitions.gaps IS
    'offsets of deleted messages, from the first stored one on; NULL: none';

-- The cursor's own copy: claims lock cursors, and read partitions as they were before.
ALTER TABLE @schema@.cursors ADD gaps int8multirange;
COMMENT ON COLUMN @schema@.cursors.gaps IS
    'offsets of deleted messages that lie ahead of next_offset; NULL: none';

CREATE OR REPLACE VIEW @schema@.consumer_lag AS
SELECT q.name AS queue, g.name AS consumer_group, p.name AS partition, c.partition_id,
    p.next_offset - c.next_offset - coalesce((
        SELECT sum(upper(r) - lower(r)) FROM unnest(c.gaps) AS r), 0)::bigint AS unread, c.parked,
    coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(
        c.lease_set * int8multirange(int8range(c.lease_start, NULL))) AS r), 0)::bigint
        AS unsettled,
    c.due_at
FROM @schema@.cursors c
JOIN @schema@.groups g USING (group_id)
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q ON q.queue_id = p.queue_id;
