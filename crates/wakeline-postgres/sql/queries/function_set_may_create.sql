-- Whether the caller may create a schema for a set of functions. Called by: migrate_up.
SELECT has_database_privilege(current_database(), 'CREATE') AS may
