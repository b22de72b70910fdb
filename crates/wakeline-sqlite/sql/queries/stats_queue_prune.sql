-- Removes some queue statistics that are older than ?1.
DELETE FROM queue_stats WHERE (node, slot, queue) IN (
    SELECT node, slot, queue FROM queue_stats WHERE bucket < ?1 ORDER BY bucket LIMIT ?2)
