-- Returns the time until each line has something; line 0 if deleted queues wait for their purge,
-- line -1 if rows wait in incoming to be taken over, line -2 when a job that redrives dead letters
-- is due.
SELECT line, due_us FROM @schema@.sweep($1, $2, $3, $4, $5, $6)
UNION ALL
SELECT 0, 0 WHERE EXISTS (SELECT FROM @schema@.deleted_queues)
UNION ALL
SELECT -1, 0 WHERE EXISTS (SELECT FROM @schema@.incoming WHERE refused IS NULL)
UNION ALL
SELECT -2, greatest(ceil(extract(epoch FROM r.due_at - @schema@.clock()) * 1000000), 0)::bigint
FROM (
    SELECT x.due_at FROM @schema@.redrives x WHERE x.state = 0 ORDER BY x.due_at LIMIT 1) r
