-- Queues, partitions, segments, groups, cursors, retries and dead letters.
--
-- The central idea is one nullable due_at per cursor: the earliest moment at which a claim may
-- find something; possibly early, never late; NULL = nothing to do until a push. It is ready time,
-- lease end, retry time, delay end and window end in one column and one index.
--
-- Lock order of everything that writes here:
--   catalog, queues (id), groups, partitions (id), cursors (partition, group).
-- Only push, transact and the creation and deletion of things wait for partitions; who holds a
-- cursor only tries them. READ COMMITTED; the clock is read after the locks.
--
-- There are no foreign keys on the hot tables: each would cost an index probe and a row lock per
-- row. queue_delete and group_delete remove what belongs together.

-- One row. FOR SHARE while a queue is made, FOR UPDATE while a subscription is recorded: a new
-- queue and a new subscription that match always see each other.
CREATE TABLE @schema@.catalog (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton)
);
INSERT INTO @schema@.catalog DEFAULT VALUES;

CREATE TABLE @schema@.queues (
    queue_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    namespace text COLLATE "C",
    task text COLLATE "C",
    created_at timestamptz NOT NULL,
    lease_secs bigint NOT NULL DEFAULT 300,
    retry_limit bigint NOT NULL DEFAULT 3,
    retry_delay_ms bigint NOT NULL DEFAULT 0,
    retry_delay_ms_max bigint NOT NULL DEFAULT 3600000,
    retry_exponential boolean NOT NULL DEFAULT true,
    dead_letters boolean NOT NULL DEFAULT true,
    priority integer NOT NULL DEFAULT 0,
    delay_secs bigint NOT NULL DEFAULT 0,
    window_secs bigint NOT NULL DEFAULT 0,
    strict_order boolean NOT NULL DEFAULT true,
    strict_fencing boolean NOT NULL DEFAULT true,
    dedup_window_secs bigint NOT NULL DEFAULT 3600
);

-- Queues that were deleted and whose rows queue_purge still has to remove.
CREATE TABLE @schema@.deleted_queues (
    queue_id integer PRIMARY KEY
);

-- fillfactor 50: a push updates its row, and no index covers what it changes (HOT).
CREATE TABLE @schema@.partitions (
    partition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    next_offset bigint NOT NULL DEFAULT 0,
    idle boolean NOT NULL DEFAULT true,
    last_push_at timestamptz,
    UNIQUE (queue_id, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX partitions_of_queue ON @schema@.partitions (queue_id, partition_id);
COMMENT ON COLUMN @schema@.partitions.next_offset IS 'the offset that the next message gets';
COMMENT ON COLUMN @schema@.partitions.idle IS
    'some cursor may be asleep: the next push has to look at the cursors';

-- What one push stored in one partition: at most about 100 messages or 64 kB, so that a pop of a
-- few messages does not read much more than these. Immutable.
CREATE TABLE @schema@.segments (
    partition_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    len integer NOT NULL,
    created_at timestamptz NOT NULL,
    ids uuid[] NOT NULL,
    ends integer[] NOT NULL,
    txn_ids text[] NOT NULL,
    trace_ids uuid[],
    producers text[],
    body bytea NOT NULL,
    PRIMARY KEY (partition_id, first_offset)
);
-- EXTERNAL: a slice of the payloads reads only its own chunks. pglz would halve the push rate.
ALTER TABLE @schema@.segments
    ALTER ids SET STORAGE EXTERNAL,
    ALTER body SET STORAGE EXTERNAL;
-- Not every server is built with it.
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings
               WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE @schema@.segments
            ALTER txn_ids SET COMPRESSION lz4,
            ALTER producers SET COMPRESSION lz4;
    END IF;
END $$;
COMMENT ON COLUMN @schema@.segments.ends IS 'where each payload ends within body';

CREATE TABLE @schema@.groups (
    group_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    mode smallint NOT NULL,
    from_at timestamptz,
    created_at timestamptz NOT NULL,
    backfilled_to bigint,
    UNIQUE (queue_id, name)
);
COMMENT ON COLUMN @schema@.groups.mode IS 'where it began: 0 all, 1 new, 2 from from_at';
COMMENT ON COLUMN @schema@.groups.backfilled_to IS
    'the partition up to which cursors were made; NULL once all were';

-- Subscriptions for queues that do not exist yet: to one, or to those of a namespace and task.
CREATE TABLE @schema@.subscriptions (
    subscription_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_name text COLLATE "C" NOT NULL,
    queue text COLLATE "C",
    namespace text COLLATE "C",
    task text COLLATE "C",
    mode smallint NOT NULL,
    from_at timestamptz,
    created_at timestamptz NOT NULL,
    UNIQUE NULLS NOT DISTINCT (group_name, queue, namespace, task)
);

CREATE TABLE @schema@.cursors (
    partition_id bigint NOT NULL,
    group_id integer NOT NULL,
    next_offset bigint NOT NULL DEFAULT 0,
    due_at timestamptz,
    parked integer NOT NULL DEFAULT 0,
    lease_token uuid,
    lease_until timestamptz,
    lease_start bigint,
    lease_set int8multirange,
    PRIMARY KEY (partition_id, group_id)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX cursors_due ON @schema@.cursors (group_id, due_at, partition_id)
    WHERE due_at IS NOT NULL;
COMMENT ON COLUMN @schema@.cursors.next_offset IS 'the first offset that was never leased';
COMMENT ON COLUMN @schema@.cursors.parked IS 'the number of its rows in retries';
COMMENT ON COLUMN @schema@.cursors.lease_start IS 'next_offset before the lease';
COMMENT ON COLUMN @schema@.cursors.lease_set IS 'offsets of the lease that are not settled yet';

-- Messages that were delivered before and are not done with: parked, or out under a lease again.
CREATE TABLE @schema@.retries (
    partition_id bigint NOT NULL,
    group_id integer NOT NULL,
    message_offset bigint NOT NULL,
    failures integer NOT NULL,
    due_at timestamptz NOT NULL,
    solo boolean NOT NULL,
    error text,
    PRIMARY KEY (partition_id, group_id, message_offset)
);
CREATE INDEX retries_due ON @schema@.retries (partition_id, group_id, due_at, message_offset);

CREATE TABLE @schema@.dead_letters (
    dead_letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    partition_id bigint NOT NULL,
    partition text COLLATE "C" NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    message_offset bigint NOT NULL,
    id uuid NOT NULL,
    txn_id text NOT NULL,
    trace_id uuid,
    producer text,
    payload bytea NOT NULL,
    created_at timestamptz NOT NULL,
    failures integer NOT NULL,
    error text,
    failed_at timestamptz NOT NULL
);
CREATE INDEX dead_letters_queue ON @schema@.dead_letters (queue_id, dead_letter_id);
CREATE INDEX dead_letters_message ON @schema@.dead_letters (partition_id, message_offset);

CREATE VIEW @schema@.messages AS
SELECT q.name AS queue, p.name AS partition, s.partition_id,
    s.first_offset + n - 1 AS message_offset, s.ids[n] AS id, s.txn_ids[n] AS transaction_id,
    s.trace_ids[n] AS trace_id, s.producers[n] AS producer, s.created_at,
    convert_from(substring(s.body FROM coalesce(s.ends[n - 1], 0) + 1
        FOR s.ends[n] - coalesce(s.ends[n - 1], 0)), 'UTF8') AS payload
FROM @schema@.segments s
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL generate_series(1, s.len) AS n;
COMMENT ON VIEW @schema@.messages IS
    'one row per stored message; read it by queue, partition or partition_id';

CREATE VIEW @schema@.consumer_lag AS
SELECT q.name AS queue, g.name AS consumer_group, p.name AS partition, c.partition_id,
    p.next_offset - c.next_offset AS unread, c.parked,
    coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(
        c.lease_set * int8multirange(int8range(c.lease_start, NULL))) AS r), 0)::bigint
        AS unsettled,
    c.due_at
FROM @schema@.cursors c
JOIN @schema@.groups g USING (group_id)
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q ON q.queue_id = p.queue_id;
COMMENT ON VIEW @schema@.consumer_lag IS
    'how far each group is behind in each partition: unread + parked + unsettled';

CREATE VIEW @schema@.leases AS
SELECT q.name AS queue, g.name AS consumer_group, p.name AS partition, c.partition_id,
    c.lease_token, c.lease_until, c.lease_set AS unsettled_offsets
FROM @schema@.cursors c
JOIN @schema@.groups g USING (group_id)
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q ON q.queue_id = p.queue_id
WHERE c.lease_token IS NOT NULL;
COMMENT ON VIEW @schema@.leases IS
    'leases that are out; one whose lease_until has passed is ended by the next claim';

CREATE VIEW @schema@.parked_messages AS
SELECT q.name AS queue, g.name AS consumer_group, p.name AS partition, r.partition_id,
    r.message_offset, r.failures, r.due_at, r.solo AS goes_alone, r.error
FROM @schema@.retries r
JOIN @schema@.groups g USING (group_id)
JOIN @schema@.partitions p USING (partition_id)
JOIN @schema@.queues q ON q.queue_id = p.queue_id;
COMMENT ON VIEW @schema@.parked_messages IS
    'messages that failed or were given back, also while they are out under a lease again';
