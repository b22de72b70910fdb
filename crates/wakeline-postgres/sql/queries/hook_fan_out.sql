-- Creates a batch of the deliveries that emits have left for later.
SELECT * FROM @schema@.hook_fan_out($1, $2)
