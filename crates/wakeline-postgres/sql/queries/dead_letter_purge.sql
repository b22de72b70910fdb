-- Removes at most $8 dead letters and returns their number. They are locked in order of their
-- numbers, as by jobs.
WITH doomed AS MATERIALIZED (
    SELECT d.dead_letter_id
    FROM @schema@.dead_letters d JOIN @schema@.queues q USING (queue_id)
    WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.group_name = $2)
    AND ($3::text IS NULL OR d.partition = $3) AND ($4::bigint IS NULL OR d.dead_letter_id = $4)
    AND ($5::timestamptz IS NULL OR d.failed_at >= $5)
    AND ($6::timestamptz IS NULL OR d.failed_at < $6)
    AND ($7::text IS NULL OR strpos(d.error, $7) > 0)
    ORDER BY d.dead_letter_id LIMIT $8 FOR UPDATE OF d
), gone AS (
    DELETE FROM @schema@.dead_letters d USING doomed x
    WHERE d.dead_letter_id = x.dead_letter_id RETURNING 1
)
SELECT count(*) FROM gone
