-- Scheduled messages of a queue, with one key (?2) or with any, in the order of their due times,
-- after the position (?3, ?4).
SELECT s.scheduled_id, s.timer_key, s.id, s.transaction_id, s.trace_id, s.producer, p.name, s.partition_id,
    s.scheduled_at, s.deliver_at, s.payload
FROM scheduled s JOIN partitions p ON p.partition_id = s.partition_id
WHERE s.queue_id = ?1 AND (?2 IS NULL OR s.timer_key = ?2) AND (s.deliver_at, s.scheduled_id) > (?3, ?4)
ORDER BY s.deliver_at, s.scheduled_id LIMIT ?5
