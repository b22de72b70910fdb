-- The losses that were not reported yet. Few queues have time limits.
SELECT q.name, h.expired - h.told_expired, h.evicted - h.told_evicted, h.dropped - h.told_dropped
FROM housekeeping h JOIN queues q ON q.queue_id = h.queue_id
WHERE h.expired > h.told_expired OR h.evicted > h.told_evicted OR h.dropped > h.told_dropped
ORDER BY q.name
