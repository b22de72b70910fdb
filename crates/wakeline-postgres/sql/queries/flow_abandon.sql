-- Releases a leased turn or work.
SELECT o_held, o_what, o_name, o_due_us FROM @schema@.flow_abandon($1, $2, $3, $4, $5)
