-- Replaces the current key of an endpoint. Called by: HookCatalog::rotate_secret.
SELECT @schema@.hook_secret_rotate($1, $2, $3, $4, $5, $6, $7)
