-- Instances, those that ended first in front; only those that ended before ?1, if that is given.
-- Called by: delete::ended_first.
SELECT instance FROM instances WHERE ?1 IS NULL OR ended_at < ?1
ORDER BY ended_at, instance LIMIT ?2
