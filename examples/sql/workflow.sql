-- Reads the state of orchestrations: the newest instances, the suspended instances with the reason,
-- and the work that no worker has claimed.
-- Usage: psql -d DATABASE -f workflow.sql
\set ON_ERROR_STOP on

SELECT instance, name, state, version, status, convert_from(output, 'UTF8') AS output
FROM wakeline.orchestrations WHERE name = 'order' ORDER BY created_at DESC LIMIT 10;

SELECT instance, suspended, suspended_because
FROM wakeline.orchestrations WHERE suspended IS NOT NULL;

SELECT * FROM wakeline.unclaimed;
