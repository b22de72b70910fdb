-- Moves the ends of leases. Called by: HookStore::extend_deliveries.
SELECT * FROM @schema@.hook_extend($1, $2, $3)
