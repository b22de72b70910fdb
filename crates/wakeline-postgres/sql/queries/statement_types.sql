-- Returns the types of a statement's parameters, as OIDs. It is one message, and so one
-- transaction: behind a pooler the name is gone before another client can get the session. It is
-- used for statements that are sent without a name.
PREPARE @name@ AS @statement@
;
SELECT p.parameter_types::oid[]::text AS types
FROM pg_catalog.pg_prepared_statements p WHERE p.name = '@name@';
DEALLOCATE @name@
