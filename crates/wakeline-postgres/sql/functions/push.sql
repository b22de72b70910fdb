-- Pushes a message from SQL, as part of the caller's own transaction: if that is rolled back,
-- nothing is pushed. Returns the transaction id that identifies the push.
--
-- SELECT wakeline.push('orders', jsonb_build_object('id', 7), p_partition => 'customer-1');
--
-- The message is only inserted into incoming; a node takes it over after the commit and gives it
-- its offset then. So an open transaction holds no lock of Wakeline's tables, and the order is that
-- of commits. Whether the transaction id existed already is not known here; such a message is
-- stored only once all the same. The payload is json, jsonb, or text that is JSON: three functions,
-- because there is no implicit cast between the types, and a literal is taken as text. It has at
-- most 16 MiB, or the number of bytes in the parameter wakeline.payload_bytes_max. p_delay: deliver
-- it this much later than this call. p_notify: the commit wakes a node. NOTIFY serialises the
-- commits of a cluster; without it the message waits for the next sweep of a node. Requires USAGE
-- on the schema and INSERT on incoming. Lock order: takes no lock except on its own row.

CREATE OR REPLACE FUNCTION @schema@.push(
    p_queue text, p_payload json, p_partition text DEFAULT 'Default',
    p_transaction_id text DEFAULT NULL, p_notify boolean DEFAULT true, p_delay interval DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_transaction_id text := coalesce(p_transaction_id, gen_random_uuid()::text);
    v_bytes bigint := octet_length(p_payload::text);
    v_most bigint := coalesce(
        nullif(current_setting('wakeline.payload_bytes_max', true), ''), '16777216');
    n record;
BEGIN
    FOR n IN SELECT x.* FROM (VALUES ('queue', p_queue), ('partition', p_partition),
        ('transaction_id', v_transaction_id)) AS x (what, name)
    LOOP
        IF n.name IS NULL OR octet_length(n.name) NOT BETWEEN 1 AND 255 OR n.name ~ '[[:cntrl:]]'
        THEN
            RAISE EXCEPTION '% must have 1 to 255 bytes and no control characters', n.what
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    IF p_payload IS NULL THEN
        RAISE EXCEPTION 'payload must not be null' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'for the JSON value null say ''null''::json';
    END IF;
    IF v_bytes > v_most THEN
        RAISE EXCEPTION 'payload has % bytes, more than the limit of %', v_bytes, v_most
            USING ERRCODE = 'program_limit_exceeded',
            HINT = 'the limit is the parameter wakeline.payload_bytes_max';
    END IF;
    IF p_delay < interval '0' OR NOT isfinite(p_delay) OR p_delay > interval '100 years' THEN
        RAISE EXCEPTION 'delay must be from 0 to 100 years, it is %', p_delay
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO @schema@.incoming (queue, partition, payload, transaction_id, deliver_at)
    VALUES (p_queue, p_partition, p_payload, v_transaction_id, @schema@.clock() + p_delay);
    IF p_notify THEN
        PERFORM pg_notify('@channel@', '{"k":"incoming"}');
    END IF;
    RETURN v_transaction_id;
END
$$;

CREATE OR REPLACE FUNCTION @schema@.push(
    p_queue text, p_payload jsonb, p_partition text DEFAULT 'Default',
    p_transaction_id text DEFAULT NULL, p_notify boolean DEFAULT true, p_delay interval DEFAULT NULL)
RETURNS text
LANGUAGE sql AS $$
    SELECT @schema@.push(p_queue, p_payload::json, p_partition, p_transaction_id, p_notify, p_delay)
$$;

CREATE OR REPLACE FUNCTION @schema@.push(
    p_queue text, p_payload text, p_partition text DEFAULT 'Default',
    p_transaction_id text DEFAULT NULL, p_notify boolean DEFAULT true, p_delay interval DEFAULT NULL)
RETURNS text
LANGUAGE sql AS $$
    SELECT @schema@.push(p_queue, p_payload::json, p_partition, p_transaction_id, p_notify, p_delay)
$$;
