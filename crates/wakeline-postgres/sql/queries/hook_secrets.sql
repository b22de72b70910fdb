-- Returns the valid keys of an endpoint.
SELECT x.sealed, x.until
FROM @schema@.hook_endpoints e,
    unnest(e.secrets, e.secret_ends) WITH ORDINALITY AS x (sealed, until, ord)
WHERE e.endpoint_id = @schema@.hook_endpoint_find($1, $2, $3, $4)
    AND (x.until IS NULL OR x.until > @schema@.clock())
ORDER BY x.ord
