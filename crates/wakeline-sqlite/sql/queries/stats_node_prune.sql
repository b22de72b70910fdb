-- Removes some node statistics that are older than ?1.
DELETE FROM node_stats WHERE (node, slot) IN (
    SELECT node, slot FROM node_stats WHERE bucket < ?1 ORDER BY bucket LIMIT ?2)
