-- Pops messages from SQL, as part of the caller's own transaction: if that is rolled back, they
-- were never taken. They are leased to the caller for the queue's lease time, as over HTTP, and
-- stay leased after the commit until they are acked, or that time has passed.
--
-- SELECT * FROM wakeline.pop('orders', p_batch => 10);
--
-- Until its end the transaction locks the cursors that it took: other claims skip them, pushes do
-- not wait for them. Keep it short all the same. The first pop of a group also locks the queue's
-- row. Due scheduled messages are moved first, and their partitions are locked as well: pushes to
-- these do wait for the transaction's end. Messages of encrypted queues cannot be read here: that
-- is an error. It takes nothing more once it has 32 MiB of payloads, so p_batch may be any number
-- even for large messages. p_notify: the commit notifies nodes of the end of the lease, for
-- consumers that wait there. Runs with the rights of its owner; use GRANT EXECUTE to allow roles to
-- call it. Lock order: as claim.

CREATE OR REPLACE FUNCTION @schema@.pop(
    p_queue text, p_batch integer DEFAULT 1, p_partition text DEFAULT NULL,
    p_group text DEFAULT '__QUEUE_MODE__', p_partitions integer DEFAULT 1,
    p_notify boolean DEFAULT true)
RETURNS TABLE (
    message_id uuid, transaction_id text, queue text, partition text, partition_id bigint,
    message_offset bigint, attempt integer, payload json, created_at timestamptz, trace_id uuid,
    producer text, lease_token uuid, lease_until timestamptz)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_kind smallint := CASE WHEN p_partition IS NULL THEN 0 ELSE 1 END;
    v_token uuid := gen_random_uuid();
    v_begun boolean := false;
    v_due boolean := false;
    v_prompt boolean := false;
    v_changes jsonb := '[]';
    c record;
    i integer;
    v_start integer;
    v_now timestamptz;
BEGIN
    IF p_queue IS NULL OR p_group IS NULL THEN
        RAISE EXCEPTION 'queue and group must not be null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF p_group = '' OR octet_length(p_group) > 255 OR p_group ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'group must have 1 to 255 bytes and no control characters'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_batch IS NULL OR p_batch NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'batch must be from 1 to 10000'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_partitions IS NULL OR p_partitions NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'partitions must be from 1 to 100'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- For the caller's whole transaction; only a superuser could name the setting in a SET clause.
    PERFORM set_config('wakeline.awake', 'on', true);
    LOOP
        FOR c IN SELECT x.* FROM @schema@.claim(ARRAY[v_kind], ARRAY[p_queue], ARRAY[p_partition],
            ARRAY[NULL::text], ARRAY[NULL::text], ARRAY[p_group], ARRAY[0::smallint], ARRAY[1],
            ARRAY[1], ARRAY[v_token], ARRAY[p_batch], ARRAY[p_partitions], ARRAY[false],
            ARRAY[false], false, p_prompt => v_prompt, p_bytes => ARRAY[33554432::bigint]) x
            ORDER BY x.hand_over NULLS FIRST, x.first_offset
        LOOP
            CONTINUE WHEN c.request < 0;
            IF c.request = 0 THEN
                v_begun := c.state NOT IN (1, 3);
                v_due := c.state = 3;
                CONTINUE;
            END IF;
            v_begun := true;
            v_now := coalesce(v_now, @schema@.clock());
            IF c.body IS NULL OR substring(c.body FOR 1) = '\x01' THEN
                RAISE EXCEPTION 'queue % is encrypted, or its messages are corrupt', p_queue
                    USING ERRCODE = 'feature_not_supported',
                    HINT = 'encrypted queues are popped over HTTP only';
            END IF;
            IF v_changes = '[]' OR v_changes #>> '{-1,p}' <> c.partition THEN
                v_changes := v_changes || jsonb_build_object('q', c.queue, 'p', c.partition,
                    's', c.namespace, 't', c.task, 'g', p_group, 'd', c.lease_us / 1000);
            END IF;
            queue := c.queue; partition := c.partition; partition_id := c.partition_id;
            created_at := c.created_at; lease_token := v_token;
            lease_until := v_now + make_interval(secs => c.lease_us / 1000000.0);
            v_start := c.body_start;
            FOR i IN 1 .. cardinality(c.ids) LOOP
                message_id := c.ids[i]; transaction_id := c.txn_ids[i];
                message_offset := c.first_offset + i - 1;
                attempt := 1 + coalesce(
                    c.retry_failures[array_position(c.retry_offsets, message_offset)], 0);
                payload := convert_from(substring(c.body FROM v_start - c.body_start + 1
                    FOR c.ends[i] - v_start), 'UTF8')::json;
                trace_id := c.trace_ids[i]; producer := c.producers[i];
                v_start := c.ends[i];
                RETURN NEXT;
            END LOOP;
        END LOOP;
        EXIT WHEN v_begun;
        IF v_due THEN
            PERFORM @schema@.scheduled_move(
                v_kind, p_queue, p_partition, NULL, NULL, NULL, false);
            v_prompt := true;
            CONTINUE;
        END IF;
        WHILE NOT @schema@.group_begin(
            v_kind, p_queue, NULL, NULL, p_group, 0::smallint, NULL) LOOP
        END LOOP;
    END LOOP;
    IF p_notify AND v_changes <> '[]' THEN
        PERFORM @schema@.notify_changes(v_changes);
    END IF;
END
$$;
REVOKE EXECUTE ON FUNCTION @schema@.pop(text, integer, text, text, integer, boolean) FROM PUBLIC;
