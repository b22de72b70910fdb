-- Durable orchestrations: lanes of messages, instances with their executions and histories, work.
--
-- The same idea as for the queue: one nullable due_at per lane, the earliest moment at which a claim
-- may find a turn; possibly early, never late. NULL = nothing to do, suspended, or nobody knows yet
-- what code it needs. While a turn is leased it is the lease's end.
--
-- A claim writes the lane and none of its messages: a lease holds what was visible at lease_at, up to
-- lease_seq. Attempts are counted on the messages when a lease ends without a commit.
--
-- Lock order, after that of the queue: lanes (missing ones are made in order of their names, then all
-- are locked by id), sessions, work (id). Claims only try. What hangs on a lane (instance, execution,
-- history, messages, key-value state) is written under the lane's lock only, so it has none of its own.

CREATE TABLE @schema@.flow_capabilities (
    capability_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);
COMMENT ON TABLE @schema@.flow_capabilities IS
    'what code lanes need: claims probe the index of lanes by the number';

CREATE TABLE @schema@.flow_tags (
    tag_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);
COMMENT ON TABLE @schema@.flow_tags IS 'tags of work; number 0 stands for none';

CREATE TABLE @schema@.flow_lanes (
    lane_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL UNIQUE,
    capability_id integer,
    due_at timestamptz,
    next_seq bigint NOT NULL DEFAULT 1,
    phase smallint NOT NULL DEFAULT 0,
    lease_token uuid,
    lease_until timestamptz,
    lease_at timestamptz,
    lease_seq bigint,
    suspended text COLLATE "C" CHECK (suspended IN ('operator', 'mismatch')),
    reason text,
    watched boolean NOT NULL DEFAULT false
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX flow_lanes_due ON @schema@.flow_lanes (capability_id, due_at, lane_id)
    WHERE due_at IS NOT NULL;
CREATE INDEX flow_lanes_suspended ON @schema@.flow_lanes (suspended, capability_id)
    WHERE suspended IS NOT NULL;
COMMENT ON COLUMN @schema@.flow_lanes.next_seq IS 'the place that the next message gets';
COMMENT ON COLUMN @schema@.flow_lanes.phase IS
    'how its instance stands: 0 there is none, 1 it runs, 2 it has ended';
COMMENT ON COLUMN @schema@.flow_lanes.lease_token IS
    'kept after the lease has expired, until the next claim';
COMMENT ON COLUMN @schema@.flow_lanes.lease_at IS 'the lease holds what was visible then,';
COMMENT ON COLUMN @schema@.flow_lanes.lease_seq IS 'up to this place';
COMMENT ON COLUMN @schema@.flow_lanes.watched IS
    'another process may wait for the outcome: the next change is hinted';

CREATE TABLE @schema@.flow_messages (
    lane_id bigint NOT NULL,
    seq bigint NOT NULL,
    visible_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    starts boolean NOT NULL,
    key_execution bigint,
    key_event bigint,
    payload bytea NOT NULL,
    PRIMARY KEY (lane_id, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX flow_messages_visible ON @schema@.flow_messages (lane_id, visible_at);
CREATE INDEX flow_messages_starts ON @schema@.flow_messages (lane_id) WHERE starts;
CREATE UNIQUE INDEX flow_messages_key ON @schema@.flow_messages (lane_id, key_execution, key_event)
    WHERE key_execution IS NOT NULL;
COMMENT ON COLUMN @schema@.flow_messages.attempts IS
    'leases that ended without a commit; the one that holds it comes on top';

CREATE TABLE @schema@.flow_instances (
    lane_id bigint PRIMARY KEY,
    instance text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    parent text COLLATE "C",
    parent_event bigint,
    execution bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    status text,
    status_version bigint NOT NULL DEFAULT 0,
    kv_version bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    ended_at timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX flow_instances_list ON @schema@.flow_instances (created_at, instance);
CREATE INDEX flow_instances_name ON @schema@.flow_instances (name, created_at, instance);
CREATE INDEX flow_instances_parent ON @schema@.flow_instances (parent) WHERE parent IS NOT NULL;
CREATE INDEX flow_instances_ended ON @schema@.flow_instances (ended_at, lane_id)
    WHERE ended_at IS NOT NULL;
COMMENT ON COLUMN @schema@.flow_instances.execution IS 'the current one: the highest';

CREATE TABLE @schema@.flow_executions (
    lane_id bigint NOT NULL,
    execution bigint NOT NULL,
    version text,
    state text COLLATE "C" NOT NULL,
    output bytea,
    last_event bigint NOT NULL DEFAULT 0,
    history_bytes bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    PRIMARY KEY (lane_id, execution)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE @schema@.flow_history (
    lane_id bigint NOT NULL,
    execution bigint NOT NULL,
    first_event bigint NOT NULL,
    last_event bigint NOT NULL,
    events bytea NOT NULL,
    PRIMARY KEY (lane_id, execution, first_event)
);
COMMENT ON TABLE @schema@.flow_history IS 'one row per turn';

CREATE TABLE @schema@.flow_kv (
    lane_id bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    execution bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (lane_id, key)
);
COMMENT ON TABLE @schema@.flow_kv IS 'key-value state as of the start of the current execution';

CREATE TABLE @schema@.flow_kv_delta (
    lane_id bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    value bytea,
    execution bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (lane_id, key)
);
COMMENT ON TABLE @schema@.flow_kv_delta IS
    'what the current execution changed; without a value: the key was cleared';

-- state 0: available. state 1: not before due_at, by which a lease ends or a delay is over; a claim
-- makes it available again. So claims in order of work_id never walk over what is out or waits.
CREATE TABLE @schema@.flow_work (
    work_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane_id bigint NOT NULL,
    execution bigint NOT NULL,
    activity bigint NOT NULL,
    tag_id integer NOT NULL DEFAULT 0,
    session text COLLATE "C",
    state smallint NOT NULL,
    due_at timestamptz,
    lease_token uuid,
    attempts integer NOT NULL DEFAULT 0,
    UNIQUE (lane_id, execution, activity)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX flow_work_ready ON @schema@.flow_work (tag_id, work_id)
    WHERE state = 0 AND session IS NULL;
CREATE INDEX flow_work_ready_session ON @schema@.flow_work (tag_id, work_id)
    WHERE state = 0 AND session IS NOT NULL;
CREATE INDEX flow_work_later ON @schema@.flow_work (tag_id, due_at)
    WHERE state = 1 AND session IS NULL;
CREATE INDEX flow_work_later_session ON @schema@.flow_work (tag_id, due_at)
    WHERE state = 1 AND session IS NOT NULL;
CREATE INDEX flow_work_session ON @schema@.flow_work (session) WHERE session IS NOT NULL;
COMMENT ON COLUMN @schema@.flow_work.lease_token IS
    'kept after the lease has expired, until the next claim';

CREATE TABLE @schema@.flow_work_bodies (
    work_id bigint PRIMARY KEY,
    payload bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE @schema@.flow_sessions (
    session text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    owned_until timestamptz NOT NULL,
    active_at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX flow_sessions_owner ON @schema@.flow_sessions (owner);

CREATE VIEW @schema@.orchestrations AS
SELECT i.instance, i.name, i.state, e.version, c.name AS capability, i.execution, i.status,
    l.suspended, l.reason AS suspended_because, i.parent, e.last_event AS events, e.output,
    i.created_at, i.updated_at, i.ended_at, l.due_at, l.lease_until
FROM @schema@.flow_instances i
JOIN @schema@.flow_lanes l USING (lane_id)
LEFT JOIN @schema@.flow_executions e USING (lane_id, execution)
LEFT JOIN @schema@.flow_capabilities c USING (capability_id);
COMMENT ON VIEW @schema@.orchestrations IS 'one row per instance of an orchestration';

CREATE VIEW @schema@.orchestration_history AS
SELECT i.instance, i.name, h.execution, h.first_event, h.last_event, h.events
FROM @schema@.flow_history h
JOIN @schema@.flow_instances i USING (lane_id);
COMMENT ON VIEW @schema@.orchestration_history IS
    'one row per turn, with its events as the runtime encoded them; read it by instance';

CREATE VIEW @schema@.activities AS
SELECT w.work_id, l.instance, w.execution, w.activity, t.name AS tag, w.session,
    CASE WHEN w.state = 0 THEN 'available' WHEN w.lease_token IS NULL THEN 'delayed'
        ELSE 'leased' END AS state,
    w.due_at, w.attempts
FROM @schema@.flow_work w
JOIN @schema@.flow_lanes l USING (lane_id)
LEFT JOIN @schema@.flow_tags t USING (tag_id);
COMMENT ON VIEW @schema@.activities IS
    'activities that wait for a worker or are leased by one; due_at is the end of lease or delay';

-- Not every server is built with it.
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings
               WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE @schema@.flow_messages ALTER payload SET COMPRESSION lz4;
        ALTER TABLE @schema@.flow_history ALTER events SET COMPRESSION lz4;
        ALTER TABLE @schema@.flow_work_bodies ALTER payload SET COMPRESSION lz4;
    END IF;
END $$;
