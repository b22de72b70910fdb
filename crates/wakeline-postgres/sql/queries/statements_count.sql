-- Counts the calls of this role's statements in this database whose text contains the name of a
-- schema ($1), without those that functions make.
SELECT coalesce(sum(s.calls), 0)::bigint AS calls
FROM @statements@ s
WHERE s.toplevel AND position($1 IN s.query) > 0
    AND s.userid = (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user)
    AND s.dbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
