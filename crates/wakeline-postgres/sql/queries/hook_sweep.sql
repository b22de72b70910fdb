-- Returns the time until lines have something; line 0 if rows wait in incoming to be taken over.
SELECT line, due_us FROM @schema@.hook_sweep($1, $2)
UNION ALL
SELECT 0, 0 WHERE @schema@.incoming_waits()
