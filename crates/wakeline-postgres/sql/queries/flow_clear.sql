-- Continues a deletion.
SELECT o_count, o_executions, o_events, o_messages, o_watched, o_more, o_due_us
FROM @schema@.flow_clear($1, $2)
