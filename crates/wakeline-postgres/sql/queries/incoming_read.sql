-- The next rows to take over. Called by: IncomingPump.
SELECT seq, queue, partition, payload::text AS payload, transaction_id, application, event_type,
    event_id, channels, message_id
FROM @schema@.incoming WHERE refused IS NULL ORDER BY seq LIMIT 500
