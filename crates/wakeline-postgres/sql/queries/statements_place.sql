-- Returns the quoted name of the view pg_stat_statements in this database.
SELECT quote_ident(n.nspname) || '.pg_stat_statements' AS place
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements'
