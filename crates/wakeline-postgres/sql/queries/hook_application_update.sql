-- Changes an application.
SELECT * FROM @schema@.hook_application_update($1, $2, $3, $4, $5, $6, $7)
