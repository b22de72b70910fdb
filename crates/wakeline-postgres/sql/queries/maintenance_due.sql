-- Returns some partitions that have held messages.
SELECT DISTINCT x.partition_id FROM (
    SELECT s.partition_id FROM @schema@.scheduled s WHERE s.held LIMIT 1000) x
