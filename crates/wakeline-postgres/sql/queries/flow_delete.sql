-- Deletes instances, and begins with all below them. Called by: FlowAdmin::delete_instances,
-- delete_matching.
SELECT o_count, o_executions, o_events, o_messages, o_watched, o_more, o_running, o_orphans
FROM @schema@.flow_delete($1, $2, $3, $4)
