-- Stores messages in locked lanes, in order, and decides for each whether it is accepted:
-- o_outcomes contains 0 stored, 1 exists, 2 ended, and NULL for those of commands that are not
-- p_ok. It does not write the lanes: o_lanes is their new state, for flow_save. o_firsts,
-- o_commands: for each lane that got something the number of the first message and of its command.
-- p_messages: an array of objects. c: the number of the command; body: the index in p_blobs; after,
-- at: microseconds from now or since 1970; starts: a capability's number; parent: the instance that
-- waits for the one that it starts. Runs under the lanes' locks.

CREATE OR REPLACE FUNCTION @schema@.flow_put(
    p_lanes @schema@.flow_lanes[], p_messages jsonb, p_blobs bytea[], p_ok boolean[],
    p_now timestamptz,
    OUT o_lanes @schema@.flow_lanes[], OUT o_outcomes smallint[], OUT o_firsts integer[],
    OUT o_commands integer[])
LANGUAGE plpgsql AS $$
DECLARE
    m record;
    l @schema@.flow_lanes;
    i integer;
    v_names text[] := ARRAY(SELECT x.instance FROM unnest(p_lanes) AS x);
    v_at timestamptz;
BEGIN
    o_lanes := p_lanes; o_outcomes := '{}';
    o_firsts := array_fill(NULL::integer, ARRAY[cardinality(p_lanes)]);
    o_commands := o_firsts;
    FOR m IN
        SELECT x.* FROM ROWS FROM (jsonb_to_recordset(p_messages) AS (
            c integer, instance text, after bigint, at bigint, body integer, starts integer,
            parent text, uniq boolean, ended_too boolean, key_execution bigint,
            key_event bigint))
            WITH ORDINALITY AS x (c, instance, after, at, body, starts, parent, uniq, ended_too,
                key_execution, key_event, ord)
    LOOP
        IF NOT p_ok[m.c] THEN
            o_outcomes := o_outcomes || NULL::smallint;
            CONTINUE;
        END IF;
        i := array_position(v_names, m.instance);
        l := o_lanes[i];
        IF m.uniq AND (l.phase > 0 OR (l.next_seq > 1 AND EXISTS (
            SELECT FROM @schema@.flow_messages x WHERE x.lane_id = l.lane_id AND x.starts)))
        THEN
            o_outcomes := o_outcomes || 1::smallint;
            CONTINUE;
        END IF;
        IF l.phase = 2 AND NOT m.ended_too THEN
            o_outcomes := o_outcomes || 2::smallint;
            CONTINUE;
        END IF;
        o_outcomes := o_outcomes || 0::smallint;
        v_at := CASE WHEN m.at IS NOT NULL
            THEN timestamptz 'epoch' + m.at * interval '1 microsecond'
            ELSE p_now + m.after * interval '1 microsecond' END;
        INSERT INTO @schema@.flow_messages (lane_id, seq, visible_at, starts, key_execution,
            key_event, payload)
        VALUES (l.lane_id, l.next_seq, v_at, m.starts IS NOT NULL, m.key_execution, m.key_event,
            p_blobs[m.body])
        ON CONFLICT (lane_id, key_execution, key_event) WHERE key_execution IS NOT NULL DO NOTHING;
        CONTINUE WHEN NOT FOUND;
        o_firsts[i] := coalesce(o_firsts[i], m.ord::integer);
        o_commands[i] := coalesce(o_commands[i], m.c);
        o_lanes[i].next_seq := l.next_seq + 1;
        IF m.starts IS NOT NULL AND l.started_at IS NULL THEN
            o_lanes[i].started_at := p_now; o_lanes[i].parent := m.parent;
        END IF;
        IF m.starts IS NOT NULL AND (l.capability_id IS NULL OR l.phase = 2) THEN
            -- Messages that arrived before the lane had a capability become due with it.
            IF l.capability_id IS NULL AND l.next_seq > 1 THEN
                v_at := (SELECT x.visible_at FROM @schema@.flow_messages x
                    WHERE x.lane_id = l.lane_id ORDER BY x.visible_at LIMIT 1);
            END IF;
            l.capability_id := m.starts;
            o_lanes[i].capability_id := m.starts;
        END IF;
        IF l.capability_id IS NOT NULL AND l.suspended IS NULL AND l.lease_token IS NULL THEN
            o_lanes[i].due_at := least(l.due_at, v_at);
        END IF;
    END LOOP;
END
$$;
