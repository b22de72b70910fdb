-- Payloads of encrypted queues are sealed by the nodes. They begin with the byte 1, which no JSON
-- text does.

CREATE OR REPLACE VIEW @schema@.messages AS
SELECT q.name AS queue, p.name AS partition, s.partition_id,
    s.first_offset + n - 1 AS message_offset, s.ids[n] AS id, s.txn_ids[n] AS transaction_id,
    s.trace_ids[n] AS trace_id, s.producers[n] AS producer, s.created_at,
    CASE WHEN substring(s.body FOR 1) <> '\x01' THEN convert_from(
        substring(s.body FROM coalesce(s.ends[n - 1], 0) + 1
            FOR s.ends[n] - coalesce(s.ends[n - 1], 0)), 'UTF8') END AS payload,
    substring(s.body FOR 1) = '\x01' AS encrypted
FROM @schema@.segments s
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL generate_series(1, s.len) AS n;
COMMENT ON VIEW @schema@.messages IS
    'one row per stored message; read it by queue, partition or partition_id. The payload of an encrypted one is NULL';
