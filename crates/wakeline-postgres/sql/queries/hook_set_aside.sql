-- Gives back what cannot be read. Called by: HookStore::claim_deliveries and HookStore::emit.
SELECT @schema@.hook_set_aside($1, $2, $3, $4, $5)
