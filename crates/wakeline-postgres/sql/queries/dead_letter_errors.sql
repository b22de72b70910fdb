-- Counts the errors of the newest $1 dead letters by queue and error, the most frequent first.
SELECT q.name, d.error, count(*) FROM (
    SELECT x.queue_id, x.error FROM @schema@.dead_letters x ORDER BY x.dead_letter_id DESC LIMIT $1
) d JOIN @schema@.queues q ON q.queue_id = d.queue_id
GROUP BY q.name, d.error ORDER BY count(*) DESC, q.name COLLATE "C", d.error COLLATE "C"
