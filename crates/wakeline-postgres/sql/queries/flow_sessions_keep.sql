-- Extends the sessions of some owners, or removes old ones.
SELECT kept, tag, name FROM @schema@.flow_sessions_keep($1, $2, $3)
