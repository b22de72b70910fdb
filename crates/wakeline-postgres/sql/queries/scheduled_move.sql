-- Assigns due scheduled messages their offsets.
SELECT moved, busy FROM @schema@.scheduled_move($1, $2, $3, $4, $5, $6, $7)
