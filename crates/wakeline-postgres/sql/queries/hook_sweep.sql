-- How long until lines have something; line 0 if messages wait to be taken over from incoming.
-- Called by: HookStore::sweep_hook.
SELECT line, due_us FROM @schema@.hook_sweep($1, $2)
UNION ALL
SELECT 0, 0 WHERE @schema@.incoming_waits()
