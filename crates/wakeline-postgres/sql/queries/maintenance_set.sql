-- Changes what is suspended.
SELECT * FROM @schema@.maintenance_set($1, $2)
