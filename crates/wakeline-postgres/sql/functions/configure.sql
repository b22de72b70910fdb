-- Changes options of a queue from SQL, as part of the caller's own transaction. The queue is
-- created if it does not exist. Options that are not named stay unchanged. Returns the options that
-- were set, by the names of their columns.
--
-- SELECT wakeline.configure('orders', '{"unordered": true, "leaseTime": 60}');
--
-- Options have the same names and limits as over HTTP (docs/reference/queue.md). Encryption can
-- only be switched on over HTTP, where it is checked that the servers have keys. The transaction
-- locks the queue's row until its end: keep it short. p_notify: the commit notifies nodes of the
-- change; otherwise they notice it within a minute. Runs with the rights of its owner; use GRANT
-- EXECUTE to allow roles to call it. Lock order: the advisory lock of the queue's name if the queue
-- is missing, as partition_create, then as queue_configure.

CREATE OR REPLACE FUNCTION @schema@.configure(
    p_queue text, p_options jsonb, p_notify boolean DEFAULT true)
RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_namespace text;
    v_task text;
    v_columns jsonb;
BEGIN
    IF p_queue IS NULL OR octet_length(p_queue) NOT BETWEEN 1 AND 255 OR p_queue ~ '[[:cntrl:]]'
    THEN
        RAISE EXCEPTION 'queue must have 1 to 255 bytes and no control characters'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_columns := @schema@.queue_options_check(p_options);
    IF NOT EXISTS (SELECT FROM @schema@.queues q WHERE q.name = p_queue) THEN
        -- One caller at a time creates the queue. Otherwise all callers that waited for its row
        -- would hold it FOR SHARE, and none could continue to change it.
        PERFORM pg_advisory_xact_lock(hashtextextended('@schema@.configure ' || p_queue, 0));
        IF strpos(p_queue, '.') > 0 THEN
            v_namespace := nullif(split_part(p_queue, '.', 1), '');
            v_task := nullif(substr(p_queue, strpos(p_queue, '.') + 1), '');
        END IF;
        PERFORM @schema@.partition_create(ARRAY[p_queue], ARRAY[v_namespace], ARRAY[v_task],
            ARRAY['Default'], false);
    END IF;
    PERFORM @schema@.queue_configure(p_queue, NULL, NULL, v_columns);
    INSERT INTO @schema@.audit (at, actor, act, target, detail)
    VALUES (@schema@.clock(), 'sql:' || session_user, 'queue.configure', p_queue, '');
    IF p_notify THEN
        PERFORM @schema@.notify_changes(jsonb_build_array(jsonb_build_object('q', q.name,
            's', q.namespace, 't', q.task, 'd', 0)))
        FROM @schema@.queues q WHERE q.name = p_queue;
    END IF;
    RETURN v_columns;
END
$$;
REVOKE EXECUTE ON FUNCTION @schema@.configure(text, jsonb, boolean) FROM PUBLIC;
