-- Replaces the current key of an endpoint.
SELECT @schema@.hook_secret_rotate($1, $2, $3, $4, $5, $6, $7)
