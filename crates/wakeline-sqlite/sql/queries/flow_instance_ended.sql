-- Instances that ended and are nobody's children, those that ended first in front, from a place on.
-- Called by: delete::ended_roots. Walks instances_ended.
SELECT ended_at, instance FROM instances INDEXED BY instances_ended
WHERE ended_at IS NOT NULL AND parent IS NULL AND ended_at < ?1 AND (ended_at, instance) > (?2, ?3)
ORDER BY ended_at, instance LIMIT ?4
