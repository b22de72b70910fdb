-- Returns the privileges of roles other than the owner on each table and view of a schema, as
-- statements that would give them again. It runs before migrations.
SELECT c.oid, c.relname::text AS name, a.attname::text AS attribute,
    format('GRANT %s%s ON %I.%I TO %s%s', a.privilege_type,
        CASE WHEN a.attname IS NOT NULL THEN format(' (%I)', a.attname) END, n.nspname, c.relname,
        CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
        CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' END) AS statement
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT NULL::name AS attname, x.* FROM aclexplode(c.relacl) x
    UNION ALL
    SELECT t.attname, x.* FROM pg_attribute t CROSS JOIN LATERAL aclexplode(t.attacl) x
    WHERE t.attrelid = c.oid AND t.attnum > 0 AND NOT t.attisdropped) a
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm') AND a.grantee <> c.relowner
