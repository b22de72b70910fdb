-- Returns the tables of a schema ($1), the largest first.
SELECT t.relname::text, t.n_live_tup, t.n_dead_tup, pg_total_relation_size(t.relid),
    greatest(t.last_vacuum, t.last_autovacuum)
FROM pg_stat_user_tables t WHERE t.schemaname = $1 ORDER BY 4 DESC, 1
