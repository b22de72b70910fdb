-- Leases deliveries to the requests of some lines.
SELECT * FROM @schema@.hook_claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
