-- Returns whether the caller may create a schema for a set of functions.
SELECT has_database_privilege(current_database(), 'CREATE') AS may
