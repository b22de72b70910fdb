-- Deletes ended instances. Called by: FlowAdmin::delete_matching.
SELECT o_count, o_executions, o_events, o_messages FROM @schema@.flow_delete_matching($1, $2, $3)
