-- Creates an application.
SELECT * FROM @schema@.hook_application_create($1, $2, $3, $4, $5, $6, $7)
