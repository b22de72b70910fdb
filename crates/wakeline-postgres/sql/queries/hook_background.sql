-- Executes a batch of background work.
SELECT * FROM @schema@.hook_background($1)
