-- Settles a message that pop has returned, as part of the caller's own transaction: it is settled
-- if and only if that transaction commits.
--
-- SELECT wakeline.ack(m.partition_id, m.transaction_id, m.lease_token);
--
-- p_status: completed, failed, retry or dlq, as over HTTP. The call fails if the lease has ended,
-- or if the message does not belong to this lease or is settled already, so that the work done
-- under a lost lease is rolled back. p_notify: the commit notifies nodes of what the end of the
-- lease makes available. Runs with the rights of its owner; use GRANT EXECUTE to allow roles to
-- call it. Lock order: as settle.

CREATE OR REPLACE FUNCTION @schema@.ack(
    p_partition_id bigint, p_transaction_id text, p_lease_token uuid,
    p_status text DEFAULT 'completed', p_error text DEFAULT NULL,
    p_group text DEFAULT '__QUEUE_MODE__', p_notify boolean DEFAULT true)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
DECLARE
    v_verdict smallint := CASE p_status WHEN 'completed' THEN 0 WHEN 'success' THEN 0
        WHEN 'failed' THEN 1 WHEN 'retry' THEN 2 WHEN 'dlq' THEN 3 END;
    v_live boolean := false;
    v_done boolean := false;
    v_changes jsonb := '[]';
    s record;
    h record;
BEGIN
    IF v_verdict IS NULL THEN
        RAISE EXCEPTION 'status must be completed, failed, retry or dlq'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_partition_id IS NULL OR p_transaction_id IS NULL OR p_lease_token IS NULL
        OR p_group IS NULL
    THEN
        RAISE EXCEPTION 'partition_id, transaction_id, lease_token and group must not be null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    -- For the caller's whole transaction; only a superuser could name the setting in a SET clause.
    PERFORM set_config('wakeline.awake', 'on', true);
    FOR s IN SELECT x.* FROM @schema@.settle(ARRAY[p_partition_id], ARRAY[p_group], ARRAY[1],
        ARRAY[p_lease_token], ARRAY[p_transaction_id], ARRAY[v_verdict], ARRAY[p_error], false) x
    LOOP
        IF s.queue IS NOT NULL THEN
            h := s;
        END IF;
        v_live := v_live OR (s.held > 0 AND s.lease_token = p_lease_token);
        v_done := v_done OR coalesce(cardinality(s.items), 0) > 0;
        IF s.due_us IS NOT NULL THEN
            v_changes := v_changes || jsonb_build_object('q', h.queue, 'p', h.partition,
                's', h.namespace, 't', h.task, 'g', p_group, 'd', s.due_us / 1000);
        END IF;
    END LOOP;
    IF NOT v_done AND NOT coalesce(v_live, false) THEN
        RAISE EXCEPTION 'the lease of message % is over', p_transaction_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    ELSIF NOT v_done THEN
        RAISE EXCEPTION 'the lease holds no unsettled message %', p_transaction_id
            USING ERRCODE = 'no_data_found';
    END IF;
    IF p_notify AND v_changes <> '[]' THEN
        PERFORM @schema@.notify_changes(v_changes);
    END IF;
END
$$;
REVOKE EXECUTE ON FUNCTION @schema@.ack(bigint, text, uuid, text, text, text, boolean) FROM PUBLIC;
