-- Does a piece of background work. Called by: HookAdmin::do_chores.
SELECT * FROM @schema@.hook_chores($1)
