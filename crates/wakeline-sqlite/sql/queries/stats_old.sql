-- Whether something is older than ?1. Called by: stats::has_old.
SELECT EXISTS (SELECT 1 FROM queue_stats WHERE bucket < ?1) OR EXISTS (SELECT 1 FROM node_stats WHERE bucket < ?1)
