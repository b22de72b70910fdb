-- Stores messages, each with a delivery for every endpoint that subscribes to it, and leases some
-- of these to the requests that were passed with the messages. The deliveries of a message for very
-- many endpoints are created later: see hook_emit_later and hook_fan_out. So are those of a message
-- for an ordered endpoint if earlier messages of its application still wait for theirs. By message:
-- p_ids; p_apps or p_app_uids, its application; p_pairs, its application and type, the same for all
-- messages of a pair, whatever their outcomes (by pair: p_types, and in p_patterns those of
-- p_pattern_pairs that match the type); p_event_ids; p_channels, joined by commas; p_payloads;
-- p_retention_us; p_only, the only endpoint that gets it; p_keys, p_prints, its idempotency;
-- p_new_*, an application to create if it is missing. By request: p_asks, its message; the rest as
-- in hook_claim. No two messages of a call have the same idempotency key or event id.
--
-- Returns rows of four kinds, in any order. 0: the outcome of a message (code: 0 stored, 1 stored
-- before, 2 its own id exists, 3 its key was used by another request, 4 the application does not
-- exist), its number of deliveries, the microseconds until something that is sent may be due, and
-- the endpoints whose owners may fetch. 1: the endpoint of a leased delivery. 2: a leased delivery.
-- 3: a message that was stored and whose deliveries are created later, and the minimum of their
-- number. It may run in the transaction of another write. Lock order: applications, keys, endpoints
-- (FOR KEY SHARE; ordered ones against each other), messages, states, as the migration describes.

CREATE OR REPLACE FUNCTION @schema@.hook_emit(
    p_ids uuid[], p_apps uuid[], p_app_uids text[], p_pairs integer[], p_types text[],
    p_patterns text[], p_pattern_pairs integer[], p_event_ids text[], p_channels text[],
    p_payloads bytea[], p_retention_us bigint[], p_only uuid[], p_keys text[], p_prints bytea[],
    p_new_ids uuid[], p_new_uids text[], p_new_names text[], p_new_rates bigint[],
    p_new_metadata bytea[],
    p_asks integer[], p_leases bigint[], p_starts integer[], p_lengths integer[],
    p_lease_keys uuid[])
RETURNS TABLE (
    kind smallint, command integer, code smallint, deliveries integer, push_us bigint,
    pulls uuid[], message uuid, event_type text, event_id text, channels text[],
    created_at timestamptz,
    endpoint uuid, application uuid, url text, headers bytea, secrets bytea[], secret_ends timestamptz[],
    options text, ask integer, delivery bigint, key uuid, lease_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    s record;
    v_now timestamptz;
    v_count integer := cardinality(p_ids);
    m_app uuid[];
    m_code smallint[];
    m_same uuid[];
    m_later boolean[] := array_fill(false, ARRAY[v_count]);
    -- By application with an ordered endpoint: the message from which on they wait.
    v_behind uuid[];
    v_since bigint[];
    -- The subscribers: a pair, and the endpoint; pair 0 for the endpoints that are named in p_only.
    w_pair integer[];
    w_id uuid[];
    w_target integer[];
    w_all integer[];
    -- By endpoint, in order of their ids: its subscription and its state.
    t_id uuid[];
    t_app uuid[];
    t_channels text[];
    t_fifo boolean[];
    t_pull boolean[];
    t_open boolean[];
    t_may boolean[];
    t_wake boolean[];
    t_due bigint[];
    v_fifo boolean;
    v_requested boolean;
    v_stored uuid[];
    -- By message that was not stored: the outcome, and the existing message.
    o_type text[];
    o_event text[];
    o_channels text[];
    o_created timestamptz[];
    -- By delivery: its message and its endpoint.
    d_command integer[];
    d_target integer[];
    d_id bigint[];
    -- By lease: its delivery, its key, its request, its end.
    g_place integer[] := '{}';
    g_key uuid[] := '{}';
    g_ask integer[] := '{}';
    g_until timestamptz[] := '{}';
BEGIN
    s := @schema@.hook_emit_check(p_ids, p_apps, p_app_uids, p_keys, p_prints,
        p_new_ids, p_new_uids, p_new_names, p_new_rates, p_new_metadata);
    m_app := s.o_apps; m_code := s.o_codes; m_same := s.o_same;

    -- OFFSET 0, here and below: one index probe each, even if the plan was made when the tables
    -- were small.
    SELECT array_agg(w.pair), array_agg(w.id), array_agg(w.target) INTO w_pair, w_id, w_target
    FROM (
        SELECT x.pair, x.id, dense_rank() OVER (ORDER BY x.id)::integer AS target FROM (
            SELECT DISTINCT w.pair, f.endpoint_id AS id
            FROM unnest(p_patterns, p_pattern_pairs) AS w (pattern, pair)
            CROSS JOIN LATERAL (
                SELECT f.endpoint_id FROM @schema@.hook_filters f
                WHERE f.application_id = m_app[array_position(p_pairs, w.pair)]
                    AND f.pattern = w.pattern LIMIT 1001) f
            UNION ALL
            SELECT DISTINCT 0, o.id FROM unnest(p_only) AS o (id) WHERE o.id IS NOT NULL) x) w;
    w_all := w_pair;
    IF cardinality(w_pair)::bigint * v_count > 1000 THEN
        m_later := @schema@.hook_emit_later(p_pairs, p_only, w_pair);
        SELECT array_agg(w.pair), array_agg(w.id), array_agg(w.target) INTO w_pair, w_id, w_target
        FROM (
            SELECT x.pair, x.id, dense_rank() OVER (ORDER BY x.id)::integer AS target
            FROM unnest(w_pair, w_id) AS x (pair, id)
            WHERE x.pair = 0 OR EXISTS (
                SELECT FROM unnest(p_pairs, m_later) AS n (pair, later)
                WHERE n.pair = x.pair AND NOT n.later)) w;
    END IF;
    -- Possible subscribers are locked until the commit, so that no claim puts them to sleep
    -- meanwhile; their state is read after that. The join keeps the order of the ids.
    SELECT array_agg(x.id), array_agg(e.app), array_agg(e.channels), array_agg(e.fifo),
        array_agg(e.pull), bool_or(e.fifo)
    INTO t_id, t_app, t_channels, t_fifo, t_pull, v_fifo
    FROM (SELECT x.id FROM unnest(w_id) AS x (id) GROUP BY x.id ORDER BY x.id) x
    LEFT JOIN LATERAL (
        SELECT CASE WHEN e.deleted_at IS NULL THEN e.application_id END AS app, e.pull,
            array_to_string(e.channels, ',') AS channels, e.fifo_batch IS NOT NULL AS fifo
        FROM @schema@.hook_endpoints e WHERE e.endpoint_id = x.id OFFSET 0 FOR KEY SHARE) e ON true;
    IF v_fifo THEN
        PERFORM FROM @schema@.hook_endpoints e
        WHERE e.endpoint_id = ANY (t_id) AND e.fifo_batch IS NOT NULL
        ORDER BY e.endpoint_id FOR NO KEY UPDATE;
        -- Messages that wait already delay all messages of their application; a message of this
        -- call delays those from it on.
        SELECT array_agg(b.app), array_agg(b.since) INTO v_behind, v_since
        FROM (
            SELECT x.app, CASE WHEN EXISTS (
                    SELECT FROM @schema@.hook_fan_outs f WHERE f.application_id = x.app) THEN 1
                ELSE (SELECT min(m.ord) FROM unnest(m_app, m_code, m_later) WITH ORDINALITY
                        AS m (app, code, later, ord)
                    WHERE m.app = x.app AND m.code = 0 AND m.later) END AS since
            FROM (SELECT DISTINCT t.app FROM unnest(t_app, t_fifo) AS t (app, fifo)
                WHERE t.fifo) x) b
        WHERE b.since IS NOT NULL;
        IF v_behind IS NOT NULL THEN
            SELECT array_agg(x.later OR EXISTS (
                    SELECT FROM unnest(v_behind, v_since) AS b (app, since)
                    WHERE b.app = x.app AND b.since <= x.ord) ORDER BY x.ord)
            INTO m_later FROM unnest(m_later, m_app) WITH ORDINALITY AS x (later, app, ord);
        END IF;
    END IF;
    v_now := @schema@.clock();

    WITH put AS (
        INSERT INTO @schema@.hook_messages (application_id, message_id, event_type, event_id,
            channels, payload, created_at, expires_at)
        SELECT x.app, x.id, p_types[x.pair], x.event_id, string_to_array(x.channels, ','),
            x.payload, v_now, v_now + x.retention * interval '1 microsecond'
        FROM unnest(p_ids, m_app, p_pairs, p_event_ids, p_channels, p_payloads, p_retention_us,
            m_code) AS x (id, app, pair, event_id, channels, payload, retention, code)
        WHERE x.code = 0
        ORDER BY x.app, x.event_id, x.id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    )
    SELECT array_agg(p.message_id) INTO v_stored FROM put p;
    IF coalesce(cardinality(v_stored), 0) < v_count THEN
        SELECT array_agg(r.code), array_agg(r.same) INTO m_code, m_same FROM (
            SELECT x.ord,
                CASE WHEN x.code <> 0 OR x.id = ANY (v_stored) THEN x.code
                    WHEN i.message_id IS NOT NULL THEN 1 ELSE 2 END AS code,
                coalesce(x.same, i.message_id, e.message_id) AS same
            FROM unnest(p_ids, m_app, m_code, m_same, p_event_ids) WITH ORDINALITY
                AS x (id, app, code, same, event_id, ord)
            LEFT JOIN @schema@.hook_messages i
                ON i.application_id = x.app AND i.message_id = x.id AND x.code = 0
            LEFT JOIN @schema@.hook_messages e
                ON e.application_id = x.app AND e.event_id = x.event_id AND x.code = 0
            ORDER BY x.ord) r;
        SELECT array_agg(o.event_type), array_agg(o.event_id),
            array_agg(array_to_string(o.channels, ',')), array_agg(o.created_at)
        INTO o_type, o_event, o_channels, o_created
        FROM unnest(m_app, m_same) AS x (app, same)
        LEFT JOIN LATERAL (
            SELECT o.* FROM @schema@.hook_messages o
            WHERE o.application_id = x.app AND o.message_id = x.same OFFSET 0) o ON true;
        DELETE FROM @schema@.hook_keys k
        USING unnest(m_app, p_keys, m_code, p_ids) AS x (app, key, code, id)
        WHERE x.code = 2 AND x.key IS NOT NULL AND k.kind = 3 AND k.application_id = x.app
            AND k.key = x.key AND k.made = x.id::text;
    END IF;

    IF t_id IS NOT NULL THEN
        v_requested := p_asks <> '{}' AND cardinality(t_id) <= 200;
        -- A check without locks: whether the endpoint takes messages, whether a delivery might be
        -- leased at once, whether the endpoint must be made due, and when it will be.
        SELECT array_agg(k.open), array_agg(k.may), array_agg(k.wake),
            array_agg(CASE WHEN NOT k.open OR k.waits THEN -1 WHEN k.wake AND k.free THEN 0
                ELSE @schema@.hook_until(k.due_at, v_now) END)
        INTO t_open, t_may, t_wake, t_due
        FROM unnest(t_id) AS t (id)
        LEFT JOIN LATERAL (
            SELECT k.due_at, k.disabled IS NULL AS open, k.held = 0 AS free,
                k.held = 1 AND k.due_at > v_now AS waits,
                k.disabled IS NULL AND (NOT k.fresh
                    OR k.held = 0 AND (k.due_at IS NULL OR k.due_at > v_now)) AS wake,
                v_requested AND NOT k.pull AND k.disabled IS NULL AND (
                    SELECT true FROM @schema@.hook_deliveries d
                    WHERE d.endpoint_id = t.id AND d.state = 0 LIMIT 1) IS NULL AS may
            FROM @schema@.hook_states k WHERE k.endpoint_id = t.id OFFSET 0) k ON true;
        SELECT array_agg(x.command), array_agg(x.target) INTO d_command, d_target FROM (
            SELECT m.i AS command, w.target
            FROM generate_series(1, v_count) AS m (i)
            JOIN unnest(w_pair, w_target) AS w (pair, target)
                ON w.pair = CASE WHEN p_only[m.i] IS NULL THEN p_pairs[m.i] ELSE 0 END
            WHERE m_code[m.i] = 0 AND NOT m_later[m.i] AND t_app[w.target] = m_app[m.i] AND CASE WHEN w.pair = 0
                THEN t_id[w.target] = p_only[m.i]
                ELSE t_open[w.target] AND (t_channels[w.target] = ''
                    OR string_to_array(t_channels[w.target], ',')
                        && string_to_array(p_channels[m.i], ','))
                END
            ORDER BY m.i, w.target) x;
    END IF;

    IF d_command IS NOT NULL THEN
        IF v_requested THEN
            s := @schema@.hook_emit_leases(t_id, t_may, t_wake, d_command, d_target, p_asks,
                p_leases, p_starts, p_lengths, p_lease_keys, v_now);
            g_place := s.o_places; g_key := s.o_keys; g_ask := s.o_asks; g_until := s.o_untils;
        ELSIF true = ANY (t_wake) THEN
            PERFORM @schema@.hook_emit_wake(ARRAY(
                SELECT t_id[x.target] FROM (
                    SELECT DISTINCT x.target FROM unnest(d_target) AS x (target)
                    WHERE t_wake[x.target]) x), v_now);
        END IF;
        WITH made AS (
            INSERT INTO @schema@.hook_deliveries (endpoint_id, message_id, state, class, fifo,
                due_at, lease_key, lease_at, lease_until, created_at, updated_at)
            SELECT t_id[x.target], p_ids[x.command], CASE WHEN l.key IS NULL THEN 0 ELSE 1 END, 0,
                t_fifo[x.target], v_now, l.key, CASE WHEN l.key IS NOT NULL THEN v_now END, l.until,
                v_now, v_now
            FROM unnest(d_command, d_target) WITH ORDINALITY AS x (command, target, ord)
            LEFT JOIN unnest(g_place, g_key, g_until) AS l (place, key, until)
                ON l.place = x.ord
            ORDER BY x.ord
            RETURNING delivery_id, lease_key
        )
        SELECT array_agg(i.delivery_id ORDER BY x.ord) INTO d_id
        FROM made i JOIN unnest(g_key) WITH ORDINALITY AS x (key, ord) ON x.key = i.lease_key;
    END IF;

    IF true = ANY (m_later) THEN
        INSERT INTO @schema@.hook_fan_outs (application_id, message_id, patterns, only_endpoint)
        SELECT m_app[m.i], p_ids[m.i], ARRAY(
                SELECT w.pattern FROM unnest(p_patterns, p_pattern_pairs) AS w (pattern, pair)
                WHERE w.pair = p_pairs[m.i]), p_only[m.i]
        FROM generate_series(1, v_count) AS m (i)
        WHERE m_later[m.i] AND m_code[m.i] = 0 ORDER BY m.i;
        RETURN QUERY
        SELECT 3::smallint, m.i, NULL::smallint, CASE WHEN p_only[m.i] IS NULL THEN
                cardinality(array_positions(w_all, p_pairs[m.i])) ELSE 1 END,
            NULL::bigint, NULL::uuid[], NULL::uuid, NULL::text, NULL::text, NULL::text[], v_now,
            NULL::uuid, NULL::uuid, NULL::text, NULL::bytea, NULL::bytea[], NULL::timestamptz[],
            NULL::text, NULL::integer, NULL::bigint, NULL::uuid, NULL::bigint
        FROM generate_series(1, v_count) AS m (i) WHERE m_later[m.i] AND m_code[m.i] = 0;
    END IF;

    RETURN QUERY
    SELECT 0::smallint, x.ord::integer, x.code, coalesce(w.deliveries, 0)::integer, w.push_us,
        w.pulls, coalesce(x.same, x.id), o_type[x.ord], o_event[x.ord],
        string_to_array(o_channels[x.ord], ','), coalesce(o_created[x.ord], v_now),
        NULL::uuid, x.app, NULL::text, NULL::bytea, NULL::bytea[], NULL::timestamptz[], NULL::text,
        NULL::integer, NULL::bigint, NULL::uuid, NULL::bigint
    FROM unnest(p_ids, m_app, m_code, m_same) WITH ORDINALITY AS x (id, app, code, same, ord)
    LEFT JOIN (
        SELECT d.command, count(*) AS deliveries,
            min(t_due[d.target]) FILTER (WHERE NOT t_pull[d.target] AND t_due[d.target] >= 0
                AND d.ord <> ALL (g_place)) AS push_us,
            array_agg(t_id[d.target]) FILTER (WHERE t_pull[d.target] AND t_due[d.target] >= 0)
                AS pulls
        FROM unnest(d_command, d_target) WITH ORDINALITY AS d (command, target, ord)
        GROUP BY d.command) w ON w.command = x.ord;
    IF d_command IS NULL OR g_place = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 1::smallint, NULL::integer, NULL::smallint, NULL::integer, NULL::bigint, NULL::uuid[],
        NULL::uuid, NULL::text, NULL::text, NULL::text[], v_now,
        e.endpoint_id, e.application_id, e.url, e.headers, e.secrets, e.secret_ends, e.options,
        NULL::integer, NULL::bigint, NULL::uuid, NULL::bigint
    FROM @schema@.hook_endpoints e
    WHERE e.endpoint_id = ANY (ARRAY(
        SELECT t_id[d_target[x.place]] FROM unnest(g_place) AS x (place)));
    RETURN QUERY
    SELECT 2::smallint, d_command[x.place], NULL::smallint, NULL::integer, NULL::bigint,
        NULL::uuid[], NULL::uuid, NULL::text, NULL::text, NULL::text[], v_now,
        t_id[d_target[x.place]], NULL::uuid, NULL::text, NULL::bytea, NULL::bytea[], NULL::timestamptz[],
        NULL::text, x.ask, d_id[x.ord], x.key,
        (extract(epoch FROM x.until - v_now) * 1000000)::bigint
    FROM unnest(g_place, g_key, g_ask, g_until) WITH ORDINALITY
        AS x (place, key, ask, until, ord);
END
$$;
