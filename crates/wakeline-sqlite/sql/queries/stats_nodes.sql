-- Statistics of nodes from ?1 to ?2, in steps of ?3 microseconds.
SELECT s.bucket / ?3 * ?3 AS at, s.node, sum(s.cpu), max(s.memory), max(s.waiters), sum(s.store_errors)
FROM node_stats s WHERE s.bucket >= ?1 AND s.bucket < ?2
GROUP BY at, s.node ORDER BY at, s.node
