-- Ended instances that have no parent, in the order in which they ended, after a position. Uses the
-- index instances_ended.
SELECT ended_at, instance FROM instances INDEXED BY instances_ended
WHERE ended_at IS NOT NULL AND parent IS NULL AND ended_at < ?1 AND (ended_at, instance) > (?2, ?3)
ORDER BY ended_at, instance LIMIT ?4
