-- The errors of the newest ?1 dead letters, most frequent first.
SELECT q.name, d.error, count(*) AS len
FROM (SELECT queue_id, error FROM dead_letters ORDER BY dead_letter_id DESC LIMIT ?1) d
JOIN queues q ON q.queue_id = d.queue_id
GROUP BY q.name, d.error ORDER BY len DESC, q.name, d.error
