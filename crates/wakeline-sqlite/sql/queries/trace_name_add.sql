-- Adds a name to a trace.
INSERT OR IGNORE INTO trace_names (name, trace_no) VALUES (?1, ?2)
