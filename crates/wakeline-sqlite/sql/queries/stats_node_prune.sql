-- Removes some of what is older than ?1. Called by: stats::forget.
DELETE FROM node_stats WHERE (node, slot) IN (
    SELECT node, slot FROM node_stats WHERE bucket < ?1 ORDER BY bucket LIMIT ?2)
