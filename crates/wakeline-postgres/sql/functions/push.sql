-- Pushes a message from SQL, as part of the caller's own transaction: if that rolls back, there was
-- no message. Returns the transaction id that names the push.
--
--   SELECT wakeline.push('orders', json_build_object('id', 7), p_partition => 'customer-1');
--
-- The message only goes into incoming; a node takes it over after the commit and gives it its offset
-- then. So an open transaction holds no lock of ours, and order is by commit. Whether the transaction
-- id was known already cannot be told here; such a message is stored once all the same.
-- p_notify: the commit wakes a node. NOTIFY makes commits of a cluster queue for each other; without
-- it the message waits for the next sweep of a node.
-- Needs: USAGE on the schema, INSERT on incoming.
-- Called by: users. Lock order: takes no lock but its own row's.

CREATE OR REPLACE FUNCTION @schema@.push(
    p_queue text, p_payload json, p_partition text DEFAULT 'Default',
    p_transaction_id text DEFAULT NULL, p_notify boolean DEFAULT true)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_transaction_id text := coalesce(p_transaction_id, gen_random_uuid()::text);
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
    INSERT INTO @schema@.incoming (queue, partition, payload, transaction_id)
    VALUES (p_queue, p_partition, p_payload, v_transaction_id);
    IF p_notify THEN
        PERFORM pg_notify('@channel@', '{"k":"incoming"}');
    END IF;
    RETURN v_transaction_id;
END
$$;
