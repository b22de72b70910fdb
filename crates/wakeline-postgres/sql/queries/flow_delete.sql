-- Deletes instances, and begins to delete their descendants.
SELECT o_count, o_executions, o_events, o_messages, o_watched, o_more, o_running, o_orphans
FROM @schema@.flow_delete($1, $2, $3, $4)
