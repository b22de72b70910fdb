-- Makes a piece of the deliveries that emits have left for later. Called by: HookAdmin::do_chores.
SELECT * FROM @schema@.hook_fan_out($1, $2)
