-- Webhooks: applications with endpoints, messages, one delivery per message and endpoint, attempts.
--
-- The same idea as for the queue: one nullable due_at per endpoint, the earliest moment at which a
-- claim may find something to do for it; possibly early, never late. NULL = nothing in sight.
--
-- What a claim may move it to:
-- * Earlier: whoever makes something wait does so itself, under the lock of the endpoint's state.
--   An emit that sees a due_at that is early enough takes no lock of it. So that this cannot be
--   taken back behind its back, it holds the endpoint FOR KEY SHARE until its commit.
-- * Later, or away: by claims only, and only if they get the endpoint FOR UPDATE (tried, never
--   waited for) and then, in a new statement, see nothing that is due. If held > 0 something due
--   waits already, and they need not.
-- * held = 1: until a lease ends. A claim that sets it holds the leases of the endpoint, so that whoever
--   settles one afterwards sees it, and makes the endpoint due.
--
-- Lock order, after that of orchestrations: applications, keys, endpoints, messages, deliveries, states,
-- each by id; jobs and event types are on their own. Claims hold states and only try everything else.

CREATE TABLE @schema@.hook_applications (
    application_id uuid PRIMARY KEY,
    uid text COLLATE "C",
    name text NOT NULL,
    rate_limit bigint,
    metadata bytea NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE UNIQUE INDEX hook_applications_uid ON @schema@.hook_applications (uid)
    WHERE uid IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX hook_applications_deleted ON @schema@.hook_applications (deleted_at)
    WHERE deleted_at IS NOT NULL;
COMMENT ON COLUMN @schema@.hook_applications.deleted_at IS
    'gone for everybody who asks; its rows go by chores';

CREATE TABLE @schema@.hook_event_types (
    name text COLLATE "C" PRIMARY KEY,
    description text NOT NULL,
    schemas bytea,
    enforced boolean NOT NULL,
    archived boolean NOT NULL,
    deprecated boolean NOT NULL,
    feature_flag text,
    group_name text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE @schema@.hook_endpoints (
    endpoint_id uuid PRIMARY KEY,
    application_id uuid NOT NULL,
    uid text COLLATE "C",
    url text NOT NULL,
    description text NOT NULL,
    event_types text[] NOT NULL,
    channels text[] NOT NULL,
    metadata bytea NOT NULL,
    headers bytea NOT NULL,
    secrets bytea[] NOT NULL,
    secret_ends timestamptz[] NOT NULL,
    options text NOT NULL,
    pull boolean NOT NULL,
    fifo_batch integer,
    rate bigint,
    in_flight_max bigint NOT NULL,
    breaker_failures bigint,
    breaker_open_us bigint,
    breaker_probes bigint,
    disable_after_us bigint,
    attempts_max integer NOT NULL,
    lease_us bigint NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE INDEX hook_endpoints_application ON @schema@.hook_endpoints (application_id, endpoint_id);
CREATE UNIQUE INDEX hook_endpoints_uid ON @schema@.hook_endpoints (application_id, uid)
    WHERE uid IS NOT NULL AND deleted_at IS NULL;
COMMENT ON COLUMN @schema@.hook_endpoints.secrets IS
    'sealed, the current one first; secret_ends has their ends, none for the current one';
COMMENT ON COLUMN @schema@.hook_endpoints.options IS
    'all of them, as JSON; the columns behind repeat what decides over claims';
COMMENT ON COLUMN @schema@.hook_endpoints.deleted_at IS
    'gone for everybody who asks; what was sent to it still names it';

CREATE TABLE @schema@.hook_filters (
    application_id uuid NOT NULL,
    pattern text COLLATE "C" NOT NULL,
    endpoint_id uuid NOT NULL,
    PRIMARY KEY (application_id, pattern, endpoint_id)
);
COMMENT ON TABLE @schema@.hook_filters IS
    'who gets which event types: a message looks up every pattern that matches its type';

CREATE TABLE @schema@.hook_states (
    endpoint_id uuid PRIMARY KEY,
    pull boolean NOT NULL,
    due_at timestamptz,
    fresh boolean NOT NULL DEFAULT false,
    held smallint NOT NULL DEFAULT 0,
    held_since timestamptz,
    served bigint NOT NULL DEFAULT 0,
    served_at timestamptz,
    disabled smallint,
    rate_at timestamptz,
    throttled_until timestamptz,
    failures bigint NOT NULL DEFAULT 0,
    open_until timestamptz,
    successes bigint NOT NULL DEFAULT 0,
    failing_since timestamptz
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX hook_states_due ON @schema@.hook_states (due_at, served, endpoint_id)
    WHERE due_at IS NOT NULL AND NOT pull;
CREATE INDEX hook_states_fresh ON @schema@.hook_states (due_at, served, endpoint_id)
    WHERE due_at IS NOT NULL AND NOT pull AND fresh;
CREATE SEQUENCE @schema@.hook_served;
COMMENT ON TABLE @schema@.hook_states IS
    'when an endpoint can be served, and what holds it back';
COMMENT ON COLUMN @schema@.hook_states.fresh IS 'a first attempt may wait';
COMMENT ON COLUMN @schema@.hook_states.held IS
    'something due waits: 1 for a lease to end, 2 for the time in due_at; 0 otherwise';
COMMENT ON COLUMN @schema@.hook_states.held_since IS 'when that became due';
COMMENT ON COLUMN @schema@.hook_states.served IS
    'its place in the order of service, at served_at: among those due at once, the last comes last';
COMMENT ON COLUMN @schema@.hook_states.disabled IS '1 by its owner, 2 it is gone, 3 it only failed';
COMMENT ON COLUMN @schema@.hook_states.rate_at IS 'the time up to which its rate is used';
COMMENT ON COLUMN @schema@.hook_states.open_until IS
    'none: the breaker is closed; passed: it is half-open';

CREATE TABLE @schema@.hook_messages (
    application_id uuid NOT NULL,
    message_id uuid NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    event_id text COLLATE "C",
    channels text[],
    payload bytea,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (application_id, message_id)
);
CREATE UNIQUE INDEX hook_messages_event ON @schema@.hook_messages (application_id, event_id)
    WHERE event_id IS NOT NULL;
CREATE INDEX hook_messages_expiry ON @schema@.hook_messages (expires_at)
    WHERE payload IS NOT NULL;
COMMENT ON COLUMN @schema@.hook_messages.payload IS 'none once it has expired';

CREATE TABLE @schema@.hook_deliveries (
    delivery_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id uuid NOT NULL,
    message_id uuid NOT NULL,
    state smallint NOT NULL,
    class smallint NOT NULL,
    fifo boolean NOT NULL,
    manual boolean NOT NULL DEFAULT false,
    cancelled boolean NOT NULL DEFAULT false,
    attempts integer NOT NULL DEFAULT 0,
    scheduled integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL,
    lease_key uuid,
    lease_at timestamptz,
    lease_until timestamptz,
    back_state smallint,
    back_behind boolean,
    back_due timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    UNIQUE (endpoint_id, message_id)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX hook_deliveries_waiting
    ON @schema@.hook_deliveries (endpoint_id, class, due_at, delivery_id) WHERE state = 0;
CREATE INDEX hook_deliveries_leased ON @schema@.hook_deliveries (endpoint_id, lease_until)
    WHERE state = 1;
CREATE INDEX hook_deliveries_order ON @schema@.hook_deliveries (endpoint_id, delivery_id)
    WHERE fifo AND state < 2;
COMMENT ON COLUMN @schema@.hook_deliveries.state IS
    '0 waits, 1 is leased for an attempt, 2 delivered, 3 failed, 4 cancelled';
COMMENT ON COLUMN @schema@.hook_deliveries.class IS
    '0 its first attempt, 1 a later one; behind these: 2 asked for or of a job, 3 a job''s first';
COMMENT ON COLUMN @schema@.hook_deliveries.due_at IS
    'kept while it is leased, so that it can be given back';
COMMENT ON COLUMN @schema@.hook_deliveries.cancelled IS
    'nothing follows the attempt that is under way';
COMMENT ON COLUMN @schema@.hook_deliveries.attempts IS 'those that have ended';
COMMENT ON COLUMN @schema@.hook_deliveries.scheduled IS 'of these, the ones of its present schedule';
COMMENT ON COLUMN @schema@.hook_deliveries.back_state IS
    'of a manual attempt: what it was before, with back_behind and back_due if it waited';

CREATE TABLE @schema@.hook_attempts (
    application_id uuid NOT NULL,
    attempt_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    message_id uuid NOT NULL,
    attempt_no integer NOT NULL,
    outcome smallint NOT NULL,
    manual boolean NOT NULL,
    began_at timestamptz NOT NULL,
    took_us bigint NOT NULL,
    status integer,
    response bytea,
    error text,
    url text NOT NULL,
    PRIMARY KEY (application_id, attempt_id)
);
CREATE INDEX hook_attempts_endpoint ON @schema@.hook_attempts (endpoint_id, attempt_id);
CREATE INDEX hook_attempts_message ON @schema@.hook_attempts (message_id, attempt_id);
COMMENT ON COLUMN @schema@.hook_attempts.outcome IS
    '1 succeeded, 2 failed, 3 unknown: its lease expired';

CREATE TABLE @schema@.hook_keys (
    kind smallint NOT NULL,
    application_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    print bytea NOT NULL,
    made text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (kind, application_id, key)
);
CREATE INDEX hook_keys_expiry ON @schema@.hook_keys (expires_at);
COMMENT ON TABLE @schema@.hook_keys IS
    'requests that made something: 0 an application, 1 an event type, 2 an endpoint, 3 a message';

CREATE TABLE @schema@.hook_jobs (
    job_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid NOT NULL UNIQUE,
    application_id uuid NOT NULL,
    kind smallint NOT NULL,
    endpoint_id uuid,
    event_types text[] NOT NULL,
    since timestamptz,
    until timestamptz,
    states smallint[] NOT NULL,
    place_message uuid,
    place_endpoint uuid,
    seen bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    finished_at timestamptz
);
CREATE INDEX hook_jobs_running ON @schema@.hook_jobs (job_no) WHERE finished_at IS NULL;
CREATE INDEX hook_jobs_finished ON @schema@.hook_jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX hook_jobs_application ON @schema@.hook_jobs (application_id);
COMMENT ON COLUMN @schema@.hook_jobs.kind IS '0 recover, 1 replay missing, 2 resend, 3 cancel';
COMMENT ON COLUMN @schema@.hook_jobs.place_message IS
    'the last message that was looked at, and the last endpoint of it';

CREATE VIEW @schema@.webhook_endpoints AS
SELECT e.endpoint_id, a.application_id, a.name AS application, a.uid AS application_uid, e.uid,
    e.url, e.event_types, e.channels,
    CASE s.disabled WHEN 1 THEN 'asked' WHEN 2 THEN 'gone' WHEN 3 THEN 'failing' END AS disabled,
    s.failing_since, s.open_until AS breaker_open_until, s.throttled_until, s.due_at, e.created_at
FROM @schema@.hook_endpoints e
JOIN @schema@.hook_applications a USING (application_id)
JOIN @schema@.hook_states s USING (endpoint_id)
WHERE e.deleted_at IS NULL AND a.deleted_at IS NULL;
COMMENT ON VIEW @schema@.webhook_endpoints IS 'one row per endpoint';

CREATE VIEW @schema@.webhook_deliveries AS
SELECT e.application_id, d.message_id, m.event_type, m.event_id, d.endpoint_id, e.url,
    CASE d.state WHEN 0 THEN 'waiting' WHEN 1 THEN 'in flight' WHEN 2 THEN 'delivered'
        WHEN 3 THEN 'failed' ELSE 'cancelled' END AS state,
    d.attempts, CASE d.state WHEN 0 THEN d.due_at END AS next_attempt_at,
    d.lease_until, d.created_at, d.updated_at
FROM @schema@.hook_deliveries d
JOIN @schema@.hook_endpoints e USING (endpoint_id)
JOIN @schema@.hook_messages m USING (application_id, message_id);
COMMENT ON VIEW @schema@.webhook_deliveries IS
    'one row per message and endpoint; read it by endpoint_id, and message_id if one is meant';

CREATE VIEW @schema@.webhook_attempts AS
SELECT t.application_id, t.attempt_id, t.message_id, t.endpoint_id, t.attempt_no,
    CASE t.outcome WHEN 1 THEN 'succeeded' WHEN 2 THEN 'failed' ELSE 'unknown' END AS outcome,
    t.manual, t.began_at, t.took_us, t.status, t.response, t.error, t.url
FROM @schema@.hook_attempts t;
COMMENT ON VIEW @schema@.webhook_attempts IS 'one row per attempt that has ended';

-- Not every server is built with it.
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings
               WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE @schema@.hook_messages ALTER payload SET COMPRESSION lz4;
        ALTER TABLE @schema@.hook_attempts ALTER response SET COMPRESSION lz4;
    END IF;
END $$;
