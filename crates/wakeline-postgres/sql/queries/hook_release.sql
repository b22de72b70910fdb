-- Gives deliveries back. Called by: HookStore::release_deliveries.
SELECT * FROM @schema@.hook_release($1, $2)
