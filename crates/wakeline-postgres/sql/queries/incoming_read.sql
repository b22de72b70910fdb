-- The next rows to push. Called by: IncomingPump.
SELECT seq, queue, partition, payload::text AS payload, transaction_id
FROM @schema@.incoming WHERE refused IS NULL ORDER BY seq LIMIT 500
