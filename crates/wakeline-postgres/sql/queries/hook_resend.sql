-- One more attempt of a delivery. Called by: HookAdmin::resend.
SELECT * FROM @schema@.hook_resend($1, $2, $3, $4, $5, $6)
