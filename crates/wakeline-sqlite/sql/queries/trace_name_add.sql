-- Lets a trace be found under a name. Called by: traces::add.
INSERT OR IGNORE INTO trace_names (name, trace_no) VALUES (?1, ?2)
