-- Some partitions that have messages which were held back.
-- Called by: QueueMaintenance::release_held.
SELECT DISTINCT x.partition_id FROM (
    SELECT s.partition_id FROM @schema@.scheduled s WHERE s.held LIMIT 1000) x
