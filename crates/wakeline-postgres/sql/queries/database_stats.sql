-- Returns statistics of the database.
SELECT current_setting('server_version'), pg_database_size(d.datid), d.numbackends::bigint,
    current_setting('max_connections')::bigint, d.xact_commit, d.xact_rollback, d.deadlocks,
    d.blks_hit, d.blks_read
FROM pg_stat_database d WHERE d.datname = current_database()
