-- Begins a group, one step. Called by: QueueStore::claim, until it returns true.
SELECT @schema@.group_begin($1, $2, $3, $4, $5, $6, $7)
