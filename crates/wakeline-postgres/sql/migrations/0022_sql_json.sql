-- JSON for those who work in SQL: payloads in views are jsonb instead of text. And what push takes from
-- now on: a time to deliver at, and the size of each payload, so that rows are taken over in pieces of
-- limited size.

CREATE FUNCTION @schema@.payload_json(p_payload bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN convert_from(p_payload, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception THEN
    -- Not JSON, or JSON that jsonb cannot hold, such as the escape \u0000: one such message must not
    -- make a view unreadable.
    RETURN NULL;
END
$$;

DROP VIEW @schema@.messages;
CREATE VIEW @schema@.messages AS
SELECT q.name AS queue, p.name AS partition, s.partition_id,
    s.first_offset + n - 1 AS message_offset, s.ids[n] AS id, s.txn_ids[n] AS transaction_id,
    s.trace_ids[n] AS trace_id, s.producers[n] AS producer, s.created_at,
    CASE WHEN NOT e.encrypted THEN @schema@.payload_json(e.body) END AS payload,
    CASE WHEN NOT e.encrypted THEN convert_from(e.body, 'UTF8') END AS payload_text, e.encrypted
FROM @schema@.segments s
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL generate_series(1, s.len) AS n
CROSS JOIN LATERAL (
    SELECT substring(s.body FOR 1) = '\x01' AS encrypted,
        substring(s.body FROM coalesce(s.ends[n - 1], 0) + 1
            FOR s.ends[n] - coalesce(s.ends[n - 1], 0)) AS body) e;
COMMENT ON VIEW @schema@.messages IS
    'one row per stored message; read it by queue, partition or partition_id. The payload of an encrypted one is NULL; payload_text is as it was pushed';

DROP VIEW @schema@.dead_letter_messages;
CREATE VIEW @schema@.dead_letter_messages AS
SELECT d.dead_letter_id, q.name AS queue, d.partition, d.partition_id, d.group_name AS
    consumer_group, d.message_offset, d.id, d.txn_id AS transaction_id, d.trace_id, d.producer,
    CASE WHEN NOT e.encrypted THEN @schema@.payload_json(d.payload) END AS payload,
    CASE WHEN NOT e.encrypted THEN convert_from(d.payload, 'UTF8') END AS payload_text, e.encrypted,
    d.created_at, d.failures, d.error, d.failed_at
FROM @schema@.dead_letters d
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL (SELECT substring(d.payload FOR 1) = '\x01' AS encrypted) e;
COMMENT ON VIEW @schema@.dead_letter_messages IS
    'messages that were given up; the payload of an encrypted one is NULL';

DROP VIEW @schema@.scheduled_messages;
CREATE VIEW @schema@.scheduled_messages AS
SELECT q.name AS queue, p.name AS partition, s.partition_id, s.deliver_at, s.timer_key, s.id,
    s.txn_id AS transaction_id, s.trace_id, s.producer, s.scheduled_at,
    CASE WHEN NOT e.encrypted THEN @schema@.payload_json(s.payload) END AS payload,
    CASE WHEN NOT e.encrypted THEN convert_from(s.payload, 'UTF8') END AS payload_text, e.encrypted
FROM @schema@.scheduled s
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q ON q.queue_id = s.queue_id
CROSS JOIN LATERAL (SELECT substring(s.payload FOR 1) = '\x01' AS encrypted) e;
COMMENT ON VIEW @schema@.scheduled_messages IS
    'messages that have no offset yet: they get one once deliver_at has come. The payload of an encrypted one is NULL';

ALTER TABLE @schema@.incoming
    ADD COLUMN deliver_at timestamptz,
    ADD COLUMN bytes bigint GENERATED ALWAYS AS (octet_length(payload::text)) STORED;
COMMENT ON COLUMN @schema@.incoming.deliver_at IS 'NULL: at once';
