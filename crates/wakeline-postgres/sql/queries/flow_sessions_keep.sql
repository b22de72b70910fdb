-- Keeps the sessions of some owners, or removes old ones. Called by: FlowStore::keep_sessions.
SELECT kept, tag, name FROM @schema@.flow_sessions_keep($1, $2, $3)
