-- Cancels what waits of a message. Called by: HookAdmin::cancel.
SELECT * FROM @schema@.hook_cancel($1, $2, $3, $4, $5, $6, $7)
