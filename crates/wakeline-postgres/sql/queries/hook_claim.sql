-- Leases deliveries to the asks of some lines. Called by: HookStore::claim_deliveries.
SELECT * FROM @schema@.hook_claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
