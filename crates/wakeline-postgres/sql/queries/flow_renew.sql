-- Moves the end of leases. Called by: FlowStore::renew.
SELECT token, state FROM @schema@.flow_renew($1, $2, $3, $4)
