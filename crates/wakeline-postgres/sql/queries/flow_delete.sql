-- Deletes instances with all below them. Called by: FlowAdmin::delete_instances.
SELECT o_count, o_executions, o_events, o_messages, o_running, o_orphans
FROM @schema@.flow_delete($1, $2)
