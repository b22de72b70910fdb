-- One redrive by its id.
SELECT number, id, letter, queue, group_name, partition, from_at, to_at, error, to_queue, rate,
       last, place, total, done, failed, state, due_at, created_at, updated_at
FROM redrives WHERE id = ?1
