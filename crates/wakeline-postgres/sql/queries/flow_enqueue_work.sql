-- Stores work outside of a turn.
SELECT tag, name, due_us FROM @schema@.flow_enqueue_work($1, $2, $3, $4, $5, $6, $7, $8, $9)
