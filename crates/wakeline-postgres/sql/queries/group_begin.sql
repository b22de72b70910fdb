-- Executes one step of creating a group.
SELECT @schema@.group_begin($1, $2, $3, $4, $5, $6, $7)
