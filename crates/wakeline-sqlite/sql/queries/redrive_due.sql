-- The redrive that has been due the longest.
SELECT number, id, letter, queue, group_name, partition, from_at, to_at, error, to_queue, rate,
       last, place, total, done, failed, state, due_at, created_at, updated_at
FROM redrives WHERE state = 0 AND due_at <= ?1 ORDER BY due_at, number LIMIT 1
