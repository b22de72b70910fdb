-- What consumers noted on messages. They go with their message: whatever deletes segments deletes
-- their traces afterwards, in a statement of its own.

CREATE TABLE @schema@.traces (
    trace_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trace_id uuid NOT NULL,
    partition_id bigint NOT NULL,
    message_offset bigint NOT NULL,
    event_type text NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    worker text,
    data bytea NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX traces_of_message ON @schema@.traces (partition_id, message_offset, trace_no);
COMMENT ON COLUMN @schema@.traces.data IS 'JSON text; sealed in encrypted queues';

-- Under what traces can be found.
CREATE TABLE @schema@.trace_names (
    name text COLLATE "C" NOT NULL,
    trace_no bigint NOT NULL REFERENCES @schema@.traces ON DELETE CASCADE,
    PRIMARY KEY (name, trace_no)
);
CREATE INDEX trace_names_of_trace ON @schema@.trace_names (trace_no);
