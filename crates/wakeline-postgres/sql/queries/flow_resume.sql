-- Ends suspensions.
SELECT resumed, what, due_us, last_capability, last_lane FROM @schema@.flow_resume($1, $2, $3, $4)
