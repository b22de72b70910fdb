-- Adds a cursor at the beginning of every partition of a queue for a new group. ?3 is the delay, ?4
-- the window.
INSERT INTO cursors (partition_id, group_id, next_offset, freed_at, due_at)
SELECT p.partition_id, ?2, coalesce((SELECT m.offset FROM messages m WHERE m.partition_id = p.partition_id
                                     ORDER BY m.offset LIMIT 1), p.next_offset), 0,
       (SELECT max(m.created_at + ?3, min(p.last_push_at + ?4, m.created_at + 10 * ?4))
        FROM messages m WHERE m.partition_id = p.partition_id AND m.offset >= 0 ORDER BY m.offset LIMIT 1)
FROM partitions p WHERE p.queue_id = ?1
