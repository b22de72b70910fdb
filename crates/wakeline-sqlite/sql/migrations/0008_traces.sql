-- What consumers noted on messages. They go with their message.

CREATE TABLE traces (
    trace_no     INTEGER PRIMARY KEY AUTOINCREMENT,
    trace_id     BLOB NOT NULL,
    partition_id INTEGER NOT NULL,
    offset       INTEGER NOT NULL,
    event_type   TEXT NOT NULL,
    group_name   TEXT NOT NULL,
    worker       TEXT,
    data         BLOB NOT NULL,               -- JSON text; sealed in encrypted queues
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX traces_of_message ON traces (partition_id, offset, trace_no);

-- Under what traces can be found.
CREATE TABLE trace_names (
    name     TEXT NOT NULL,
    trace_no INTEGER NOT NULL,
    PRIMARY KEY (name, trace_no)
) STRICT, WITHOUT ROWID;
CREATE INDEX trace_names_of_trace ON trace_names (trace_no);
CREATE TRIGGER traces_gone AFTER DELETE ON traces BEGIN
    DELETE FROM trace_names WHERE trace_no = OLD.trace_no;
END;
