-- All functions of one name that nothing else (a trigger, a view) depends on, as DROP wants them
-- named. Called by: migrate_up, because CREATE OR REPLACE cannot change a result type and leaves
-- other signatures in place.
SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) AS name
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = $1 AND p.proname = $2
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid)
