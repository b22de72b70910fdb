-- Returns a schema as lines of text in a fixed order: tables with their columns, constraints,
-- indexes and triggers, views, and functions with their signatures, in whichever schema they are.
WITH space AS (
    SELECT oid FROM pg_namespace
    WHERE nspname = $1 OR nspname IN (SELECT place FROM @schema@.function_sets)
),
relation AS (
    SELECT c.oid, c.relname::text AS name, c.relkind, c.reloptions
    FROM pg_class c JOIN space ON c.relnamespace = space.oid
    WHERE c.relkind IN ('r', 'p', 'v', 'm')
),
line AS (
    SELECT 1 AS part, name, 0 AS sub, '' AS detail,
           CASE WHEN relkind IN ('v', 'm') THEN 'view ' ELSE 'table ' END || name
               || coalesce(' with ' || array_to_string(reloptions, ', '), '') AS text
    FROM relation
    UNION ALL
    SELECT 1, r.name, 1, lpad(a.attnum::text, 4, '0'),
           '  ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
               || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
               || CASE a.attidentity WHEN 'a' THEN ' identity always'
                                     WHEN 'd' THEN ' identity by default' ELSE '' END
               || coalesce(CASE WHEN a.attgenerated = '' THEN ' default ' ELSE ' generated ' END
                           || pg_get_expr(d.adbin, d.adrelid), '')
               || CASE WHEN a.attstorage <> t.typstorage
                       THEN ' storage ' || a.attstorage::text ELSE '' END
               || CASE a.attcompression WHEN 'l' THEN ' compression lz4'
                                        WHEN 'p' THEN ' compression pglz' ELSE '' END
    FROM relation r
    JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL
    SELECT 1, r.name, 2, k.conname::text,
           '  constraint ' || k.conname || ' ' || pg_get_constraintdef(k.oid)
    FROM relation r JOIN pg_constraint k ON k.conrelid = r.oid AND k.contype <> 'n'
    UNION ALL
    SELECT 1, r.name, 3, i.indexrelid::regclass::text, '  ' || pg_get_indexdef(i.indexrelid)
    FROM relation r JOIN pg_index i ON i.indrelid = r.oid
    UNION ALL
    SELECT 1, r.name, 4, g.tgname::text, '  ' || pg_get_triggerdef(g.oid)
    FROM relation r JOIN pg_trigger g ON g.tgrelid = r.oid AND NOT g.tgisinternal
    UNION ALL
    SELECT 1, r.name, 5, '', '  ' || pg_get_viewdef(r.oid)
    FROM relation r WHERE r.relkind IN ('v', 'm')
    UNION ALL
    SELECT 2, p.proname::text, 0, pg_get_function_identity_arguments(p.oid),
           'function ' || p.proname || '(' || pg_get_function_arguments(p.oid) || ') returns '
               || coalesce(pg_get_function_result(p.oid), 'nothing')
               || coalesce(' set ' || array_to_string(p.proconfig, ', '), '')
    FROM pg_proc p JOIN space ON p.pronamespace = space.oid
)
SELECT text FROM line
ORDER BY part, name COLLATE "C", sub, detail COLLATE "C"
