-- Stores work, in order, and leases it at once to workers whose requests were passed with the write
-- if no older work that they may take is available. Work whose key exists is left unchanged.
-- p_commands: the number of the command of each; p_afters, p_ats: microseconds from now or since
-- 1970. p_requests: an array of objects. c: the number of the command; r: the request's index
-- within it; lease: microseconds; tags, names: numbers, null for any; owner and session_lease, if
-- the worker may claim sessions. p_lanes: by command. Returns what was leased, and what else became
-- available: per command, tag and name the earliest time. Runs under the lanes' locks. Lock order:
-- tries sessions.

CREATE OR REPLACE FUNCTION @schema@.flow_work_add(
    p_commands integer[], p_executions bigint[], p_activities bigint[], p_routes bigint[],
    p_sessions text[], p_afters bigint[], p_ats bigint[], p_bodies bytea[], p_requests jsonb,
    p_lanes bigint[], p_ok boolean[], p_now timestamptz,
    OUT o_ids bigint[], OUT o_commands integer[], OUT o_requests integer[],
    OUT o_hint_commands integer[], OUT o_hint_us bigint[], OUT o_hint_tags text[],
    OUT o_hint_names text[])
LANGUAGE plpgsql AS $$
DECLARE
    r record;
    n integer;
    v_from integer := 1;
    v_known text := '';
    v_routes bigint[];
    v_older boolean;
    w_ids bigint[];
    w_commands integer[];
    w_executions bigint[];
    w_activities bigint[];
    w_bodies bytea[];
    w_routes bigint[];
    w_sessions text[];
    w_due timestamptz[];
    w_tokens uuid[];
BEGIN
    o_ids := '{}'; o_commands := '{}'; o_requests := '{}';
    o_hint_commands := '{}'; o_hint_us := '{}'; o_hint_tags := '{}';
    o_hint_names := '{}';
    IF p_commands = '{}' THEN
        RETURN;
    END IF;
    -- Work whose key exists is not stored. The lane's lock prevents a concurrent insert.
    SELECT array_agg(x.c), array_agg(x.execution), array_agg(x.activity), array_agg(x.route),
        array_agg(x.session), array_agg(x.body),
        array_agg(CASE WHEN x.at IS NOT NULL
            THEN timestamptz 'epoch' + x.at * interval '1 microsecond'
            ELSE p_now + x.after * interval '1 microsecond' END)
    INTO w_commands, w_executions, w_activities, w_routes, w_sessions, w_bodies, w_due
    FROM (
        SELECT x.* FROM unnest(p_commands, p_executions, p_activities, p_routes, p_sessions, p_afters,
                p_ats, p_bodies)
            WITH ORDINALITY AS x (c, execution, activity, route, session, after, at, body, ord)
        WHERE p_ok[x.c] AND NOT EXISTS (
            SELECT FROM @schema@.flow_work w WHERE w.lane_id = p_lanes[x.c]
                AND w.execution = x.execution AND w.activity = x.activity)
        ORDER BY x.ord
    ) x;
    n := coalesce(cardinality(w_commands), 0);
    IF n = 0 THEN
        RETURN;
    END IF;
    w_ids := ARRAY(SELECT nextval('@schema@.flow_work_work_id_seq') FROM generate_series(1, n));
    w_tokens := array_fill(NULL::uuid, ARRAY[n]);
    FOR r IN SELECT x.*, concat_ws('/', x.tags, x.names, x.owner) AS line
        FROM jsonb_to_recordset(p_requests) AS x (c integer, r integer, key uuid, lease bigint,
            tags jsonb, names jsonb, owner text, session_lease bigint)
    LOOP
        CONTINUE WHEN NOT p_ok[r.c];
        IF r.line <> v_known OR v_known = '' THEN
            v_known := r.line;
            v_routes := @schema@.flow_routes_of(r.tags, r.names);
            v_older := EXISTS (
                SELECT FROM @schema@.flow_work_ready(v_routes, r.owner, -1, 1, p_now))
                OR EXISTS (
                SELECT FROM unnest(v_routes) AS t (route)
                CROSS JOIN LATERAL (
                    SELECT FROM @schema@.flow_work f
                    WHERE f.route = t.route AND f.state = 1 AND f.session IS NULL
                        AND f.due_at <= p_now
                    UNION ALL
                    SELECT FROM @schema@.flow_work f
                    WHERE r.owner IS NOT NULL AND f.route = t.route AND f.state = 1
                        AND f.session IS NOT NULL AND f.due_at <= p_now AND NOT EXISTS (
                            SELECT FROM @schema@.flow_sessions s WHERE s.session = f.session
                                AND s.owner <> r.owner AND s.owned_until > p_now)
                    LIMIT 1) f);
        END IF;
        CONTINUE WHEN v_older;
        FOR i IN v_from .. n LOOP
            CONTINUE WHEN w_tokens[i] IS NOT NULL OR w_due[i] > p_now
                OR w_routes[i] <> ALL (v_routes) OR (w_sessions[i] IS NOT NULL AND r.owner IS NULL);
            -- Work of an earlier command is older. Work of a later command does not exist yet.
            EXIT WHEN w_commands[i] <> r.c;
            CONTINUE WHEN w_sessions[i] IS NOT NULL AND NOT @schema@.flow_session_take(
                w_sessions[i], r.owner, r.session_lease, p_now);
            w_tokens[i] := r.key;
            w_due[i] := p_now + r.lease * interval '1 microsecond';
            o_ids := o_ids || w_ids[i]; o_commands := o_commands || r.c;
            o_requests := o_requests || r.r;
            EXIT;
        END LOOP;
        WHILE w_tokens[v_from] IS NOT NULL LOOP
            v_from := v_from + 1;
        END LOOP;
    END LOOP;
    INSERT INTO @schema@.flow_work (work_id, lane_id, execution, activity, tag_id, name_id,
        session, state, due_at, lease_token, attempts)
    OVERRIDING SYSTEM VALUE
    SELECT x.id, p_lanes[x.c], x.execution, x.activity, x.route >> 32,
        x.route & 4294967295, x.session, CASE WHEN x.due > p_now THEN 1 ELSE 0 END, x.due,
        x.token, CASE WHEN x.token IS NULL THEN 0 ELSE 1 END
    FROM unnest(w_ids, w_commands, w_executions, w_activities, w_routes, w_sessions, w_due, w_tokens)
        AS x (id, c, execution, activity, route, session, due, token);
    INSERT INTO @schema@.flow_work_bodies (work_id, payload)
    SELECT x.id, x.body FROM unnest(w_ids, w_bodies) AS x (id, body);
    SELECT coalesce(array_agg(h.c), '{}'), coalesce(array_agg(h.us), '{}'),
        coalesce(array_agg(h.tag), '{}'), coalesce(array_agg(h.name), '{}')
    INTO o_hint_commands, o_hint_us, o_hint_tags, o_hint_names
    FROM (
        SELECT x.c, t.name AS tag, n.name,
            greatest(ceil(extract(epoch FROM min(x.due) - p_now) * 1000000), 0)::bigint AS us
        FROM unnest(w_commands, w_routes, w_due, w_tokens) AS x (c, route, due, token)
        LEFT JOIN @schema@.flow_tags t ON t.tag_id = x.route >> 32
        LEFT JOIN @schema@.flow_activity_names n ON n.name_id = x.route & 4294967295
        WHERE x.token IS NULL
        GROUP BY x.c, t.name, n.name
    ) h;
END
$$;
