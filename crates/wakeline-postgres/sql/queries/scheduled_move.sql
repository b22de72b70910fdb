-- Gives scheduled messages that are due their offsets. Called by: whoever met such messages.
SELECT moved, busy FROM @schema@.scheduled_move($1, $2, $3, $4, $5, $6, $7)
