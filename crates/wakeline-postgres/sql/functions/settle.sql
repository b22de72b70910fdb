-- Settles messages under their leases: one entry per cursor and call, any number of items each, in
-- the order in which they count. Returns one row per cursor that exists: whether its lease is live,
-- how many messages it held, which items name which offset, and which became dead letters; then
-- one row per lease that ended with something left: when that can be taken. Items that name no
-- message change nothing.
-- p_verdicts: 0 completed, 1 failed, 2 retry, 3 dead letter.
-- Called by: QueueStore::settle, transact. Lock order: cursors by (partition, group); then tries
-- queues and partitions.

CREATE OR REPLACE FUNCTION @schema@.settle(
    p_partitions bigint[], p_groups text[],
    p_entries integer[], p_tokens uuid[], p_txns text[], p_verdicts smallint[], p_errors text[])
RETURNS TABLE (
    entry integer, held bigint, lease_token uuid, strict_fencing boolean, items integer[],
    dead boolean[], queue text, partition text, namespace text, task text, due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    e record;
    c @schema@.cursors;
    q @schema@.queues;
    v_rest int8multirange;
    v_gone integer;
    v_parked integer;
    v_dead bigint[];
    -- Leases that end, and leases that go on.
    x_entry integer[] := '{}';
    x_partition bigint[] := '{}';
    x_group integer[] := '{}';
    x_next bigint[] := '{}';
    x_parked integer[] := '{}';
    k_partition bigint[] := '{}';
    k_group integer[] := '{}';
    k_set int8multirange[] := '{}';
    k_parked integer[] := '{}';
BEGIN
    FOR e IN SELECT * FROM @schema@.settle_resolve(
        p_partitions, p_groups, p_entries, p_tokens, p_txns, p_verdicts)
    LOOP
        c := e.o_cursor; q := e.o_queue; v_now := e.o_now;
        entry := e.o_entry; strict_fencing := q.strict_fencing; items := e.o_items; dead := NULL;
        queue := q.name; partition := e.o_partition; namespace := q.namespace; task := q.task;
        lease_token := CASE WHEN e.o_live THEN c.lease_token END;
        held := CASE WHEN e.o_live THEN e.o_held END;
        v_rest := c.lease_set - e.o_done;
        IF c.parked > 0 AND e.o_done <> '{}' THEN
            DELETE FROM @schema@.retries r WHERE r.partition_id = c.partition_id
                AND r.group_id = c.group_id AND e.o_done @> r.message_offset;
            GET DIAGNOSTICS v_gone = ROW_COUNT;
            c.parked := c.parked - v_gone;
        END IF;
        IF e.o_failed > 0 THEN
            SELECT f.o_parked, f.o_dead, v_rest - f.o_named INTO v_parked, v_dead, v_rest
            FROM @schema@.message_fail(
                c.partition_id, c.group_id, e.o_items, e.o_offsets, p_verdicts, p_errors, q, v_now) f;
            c.parked := c.parked + v_parked;
            dead := ARRAY(SELECT o = ANY (v_dead) FROM unnest(e.o_offsets) AS o);
        END IF;
        RETURN NEXT;
        IF e.o_items = '{}' THEN
            CONTINUE;
        ELSIF v_rest = '{}' THEN
            x_entry := x_entry || e.o_entry;
            x_partition := x_partition || c.partition_id; x_group := x_group || c.group_id;
            x_next := x_next || c.next_offset; x_parked := x_parked || c.parked;
        ELSE
            k_partition := k_partition || c.partition_id; k_group := k_group || c.group_id;
            k_set := k_set || v_rest; k_parked := k_parked || c.parked;
        END IF;
    END LOOP;
    IF k_partition <> '{}' THEN
        UPDATE @schema@.cursors u SET lease_set = k.set, parked = k.parked
        FROM unnest(k_partition, k_group, k_set, k_parked) AS k (partition_id, group_id, set, parked)
        WHERE u.partition_id = k.partition_id AND u.group_id = k.group_id;
    END IF;
    IF x_entry <> '{}' THEN
        RETURN QUERY
        SELECT x_entry[l.ord], NULL::bigint, NULL::uuid, NULL::boolean, NULL::integer[],
            NULL::boolean[], NULL::text, NULL::text, NULL::text, NULL::text,
            ceil(extract(epoch FROM l.due_at - v_now) * 1000000)::bigint
        FROM @schema@.lease_end(x_partition, x_group, x_next, x_parked, v_now) l
        WHERE l.due_at IS NOT NULL;
    END IF;
END
$$;
