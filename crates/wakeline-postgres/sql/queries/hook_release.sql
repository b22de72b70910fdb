-- Releases deliveries.
SELECT * FROM @schema@.hook_release($1, $2)
