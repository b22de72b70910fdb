-- How long until each line has something; line 0 if deleted queues wait for their purge, line -1 if
-- messages wait to be taken over from incoming.
-- Called by: QueueStore::sweep.
SELECT line, due_us FROM @schema@.sweep($1, $2, $3, $4, $5, $6)
UNION ALL
SELECT 0, 0 WHERE EXISTS (SELECT FROM @schema@.deleted_queues)
UNION ALL
SELECT -1, 0 WHERE EXISTS (SELECT FROM @schema@.incoming WHERE refused IS NULL)
