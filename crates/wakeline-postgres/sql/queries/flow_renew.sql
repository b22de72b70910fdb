-- Extends leases.
SELECT token, state FROM @schema@.flow_renew($1, $2, $3, $4)
