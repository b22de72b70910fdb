-- Views for those who look at queues in SQL.

CREATE VIEW @schema@.queue_overview AS
SELECT q.name AS queue, q.namespace, q.task, q.created_at, p.partitions, p.pushed, p.last_push_at,
    g.consumer_groups, d.dead_letters
FROM @schema@.queues q
CROSS JOIN LATERAL (
    SELECT count(*) AS partitions, coalesce(sum(x.next_offset), 0)::bigint AS pushed,
        max(x.last_push_at) AS last_push_at
    FROM @schema@.partitions x WHERE x.queue_id = q.queue_id) p
CROSS JOIN LATERAL (
    SELECT count(*) AS consumer_groups FROM @schema@.groups x WHERE x.queue_id = q.queue_id) g
CROSS JOIN LATERAL (
    SELECT count(*) AS dead_letters FROM @schema@.dead_letters x
    WHERE x.queue_id = q.queue_id) d;
COMMENT ON VIEW @schema@.queue_overview IS
    'one row per queue; pushed counts all messages that its partitions ever got';

CREATE VIEW @schema@.consumer_groups AS
SELECT q.name AS queue, g.name AS consumer_group,
    CASE g.mode WHEN 0 THEN 'all' WHEN 1 THEN 'new' ELSE 'from' END AS subscription, g.from_at,
    g.created_at, l.partitions, l.partitions_behind, l.lag
FROM @schema@.groups g
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS partitions,
        count(*) FILTER (WHERE x.unread + x.parked + x.unsettled > 0) AS partitions_behind,
        coalesce(sum(x.unread + x.parked + x.unsettled), 0)::bigint AS lag
    FROM @schema@.consumer_lag x
    WHERE x.queue = q.name AND x.consumer_group = g.name) l;
COMMENT ON VIEW @schema@.consumer_groups IS
    'one row per queue and group; lag: messages that are unread, parked or unsettled';

CREATE VIEW @schema@.dead_letter_messages AS
SELECT d.dead_letter_id, q.name AS queue, d.partition, d.partition_id, d.group_name AS
    consumer_group, d.message_offset, d.id, d.txn_id AS transaction_id, d.trace_id, d.producer,
    CASE WHEN substring(d.payload FOR 1) <> '\x01'
        THEN convert_from(d.payload, 'UTF8') END AS payload,
    substring(d.payload FOR 1) = '\x01' AS encrypted, d.created_at, d.failures, d.error, d.failed_at
FROM @schema@.dead_letters d
JOIN @schema@.queues q USING (queue_id);
COMMENT ON VIEW @schema@.dead_letter_messages IS
    'messages that were given up; the payload of an encrypted one is NULL';
