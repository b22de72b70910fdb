-- How long until lines have something. Called by: HookStore::sweep_hook.
SELECT * FROM @schema@.hook_sweep($1, $2)
