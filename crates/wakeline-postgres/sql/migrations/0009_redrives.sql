-- Jobs that redrive dead letters. The filter is kept as it was given. A job goes on where it stands,
-- whichever node carries it on: each piece of it is one transaction under the lock of its row.

CREATE TABLE @schema@.redrives (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid NOT NULL UNIQUE,
    letter bigint,
    queue text COLLATE "C",
    group_name text COLLATE "C",
    partition text COLLATE "C",
    from_at timestamptz,
    to_at timestamptz,
    error text,
    to_queue text COLLATE "C",
    rate integer,
    last bigint NOT NULL,
    place bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    state smallint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX redrives_due ON @schema@.redrives (due_at, number) WHERE state = 0;
COMMENT ON COLUMN @schema@.redrives.rate IS 'dead letters a second; NULL: as fast as can be';
COMMENT ON COLUMN @schema@.redrives.last IS 'the newest dead letter when the job started';
COMMENT ON COLUMN @schema@.redrives.place IS 'the newest dead letter that it has dealt with';
COMMENT ON COLUMN @schema@.redrives.state IS '0 running, 1 finished, 2 cancelled';
