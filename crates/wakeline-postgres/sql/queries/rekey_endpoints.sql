-- Returns some endpoints in order, with their encrypted columns.
SELECT e.endpoint_id, e.headers, e.secrets FROM @schema@.hook_endpoints e
WHERE e.endpoint_id > $1 ORDER BY e.endpoint_id LIMIT $2
