-- Moves a group to a position.
SELECT * FROM @schema@.group_seek($1, $2, $3, $4, $5)
