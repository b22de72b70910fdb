-- Why the newest dead letters were given up, so many of them (?1), the most frequent first.
-- Called by: tally::errors.
SELECT q.name, d.error, count(*) AS len
FROM (SELECT queue_id, error FROM dead_letters ORDER BY dead_letter_id DESC LIMIT ?1) d
JOIN queues q ON q.queue_id = d.queue_id
GROUP BY q.name, d.error ORDER BY len DESC, q.name, d.error
