-- Whether there are statistics that are older than ?1.
SELECT EXISTS (SELECT 1 FROM queue_stats WHERE bucket < ?1) OR EXISTS (SELECT 1 FROM node_stats WHERE bucket < ?1)
