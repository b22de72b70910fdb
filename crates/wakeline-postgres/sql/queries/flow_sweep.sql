-- Returns the time until each line has something.
SELECT line, due_us FROM @schema@.flow_sweep($1)
