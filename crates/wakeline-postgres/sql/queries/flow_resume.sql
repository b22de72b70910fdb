-- Ends suspensions. Called by: FlowAdmin::resume, FlowAdmin::retry_mismatched.
SELECT resumed, what, due_us, last_capability, last_lane FROM @schema@.flow_resume($1, $2, $3, $4)
