-- Extends leases.
SELECT * FROM @schema@.hook_extend($1, $2, $3)
