-- Ends an instance without its code.
SELECT kind, code, watched, due_us, what FROM @schema@.flow_terminate(
    $1, $2, $3, $4, $5, $6, $7, $8)
