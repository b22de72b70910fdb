-- Sends an event to the endpoints of an application from SQL, as part of the caller's own
-- transaction: if that is rolled back, nothing is sent. Returns the message's id.
--
-- SELECT wakeline.emit('customer-7', 'order.paid', jsonb_build_object('id', 7));
--
-- The message is only inserted into incoming; a node stores it with its deliveries after the
-- commit. So an open transaction holds no lock of Wakeline's tables, and the order is that of
-- commits. p_application: its id or uid. Only the node checks whether the application exists and
-- whether the payload matches the schema of its event type, if that enforces one; if not, the row
-- stays in incoming with the reason in refused. A payload is json, jsonb, or text that is JSON, as
-- in push, and has at most 1 MiB, or the number of bytes in the parameter
-- wakeline.hook_payload_bytes_max. p_event_id: your own id of the message; a second message with
-- the same id in an application is not stored. p_notify: see push. Requires USAGE on the schema and
-- INSERT on incoming. Lock order: takes no lock except on its own row.

CREATE OR REPLACE FUNCTION @schema@.emit(
    p_application text, p_event_type text, p_payload json, p_event_id text DEFAULT NULL,
    p_channels text[] DEFAULT NULL, p_notify boolean DEFAULT true)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    -- The id begins with the time, like the ids that nodes generate.
    v_id uuid := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING
        substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
        FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid;
    v_bytes bigint;
    v_most bigint;
    n record;
BEGIN
    FOR n IN SELECT x.* FROM (
        SELECT 'application' AS what, p_application AS name, '^[-A-Za-z0-9_.]+$' AS form, 255 AS most
        UNION ALL SELECT 'event_type', p_event_type, '^[-A-Za-z0-9_.]+$', 256
        UNION ALL SELECT 'event_id', p_event_id, '^[-A-Za-z0-9_.]+$', 255
        WHERE p_event_id IS NOT NULL
        UNION ALL SELECT 'channels', c.name, '^[-A-Za-z0-9_.:]+$', 128
        FROM unnest(p_channels) AS c (name)) x
    LOOP
        IF n.name IS NULL OR n.name !~ n.form OR length(n.name) > n.most THEN
            RAISE EXCEPTION '% must have 1 to % letters, digits, ''-'', ''_''% and ''.''', n.what, n.most,
                CASE n.what WHEN 'channels' THEN ', '':''' ELSE '' END
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    IF p_event_id ~ '^(app|ep|msg|atmpt|qtask)_[0-9A-Za-z]{22}$' THEN
        RAISE EXCEPTION 'event_id must not look like an id that the server gives out'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_payload IS NULL THEN
        RAISE EXCEPTION 'payload must not be null' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'for the JSON value null say ''null''::json';
    END IF;
    v_bytes := octet_length(p_payload::text);
    v_most := coalesce(nullif(current_setting('wakeline.hook_payload_bytes_max', true), ''), '1048576');
    IF v_bytes > v_most THEN
        RAISE EXCEPTION 'payload has % bytes, more than the limit of %', v_bytes, v_most
            USING ERRCODE = 'program_limit_exceeded',
            HINT = 'the limit is the parameter wakeline.hook_payload_bytes_max';
    END IF;
    INSERT INTO @schema@.incoming (application, event_type, payload, event_id, channels, message_id)
    VALUES (p_application, p_event_type, p_payload, p_event_id, p_channels, v_id);
    IF p_notify THEN
        PERFORM pg_notify('@channel@', '{"k":"incoming"}');
    END IF;
    RETURN @schema@.hook_message_name(v_id);
END
$$;

CREATE OR REPLACE FUNCTION @schema@.emit(
    p_application text, p_event_type text, p_payload jsonb, p_event_id text DEFAULT NULL,
    p_channels text[] DEFAULT NULL, p_notify boolean DEFAULT true)
RETURNS text
LANGUAGE sql AS $$
    SELECT @schema@.emit(
        p_application, p_event_type, p_payload::json, p_event_id, p_channels, p_notify)
$$;

CREATE OR REPLACE FUNCTION @schema@.emit(
    p_application text, p_event_type text, p_payload text, p_event_id text DEFAULT NULL,
    p_channels text[] DEFAULT NULL, p_notify boolean DEFAULT true)
RETURNS text
LANGUAGE sql AS $$
    SELECT @schema@.emit(
        p_application, p_event_type, p_payload::json, p_event_id, p_channels, p_notify)
$$;
