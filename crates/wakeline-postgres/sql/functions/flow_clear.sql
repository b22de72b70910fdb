-- Continues a deletion by about p_rows rows: first it deletes the children of deleted instances,
-- then the remaining rows. p_deletion: NULL for a deletion that has not been continued for a while.
-- o_more: whether something is left of it. o_due_us: if p_deletion is NULL, the time in
-- microseconds until something can be continued, NULL if nothing is left. Lock order: leftovers,
-- without waiting; lanes by id; work.

CREATE OR REPLACE FUNCTION @schema@.flow_clear(
    p_deletion uuid, p_rows integer,
    OUT o_count bigint, OUT o_executions bigint, OUT o_events bigint, OUT o_messages bigint,
    OUT o_watched text[], OUT o_more boolean, OUT o_due_us bigint)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET enable_hashjoin = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_deletion uuid := p_deletion;
    v_found bigint;
    k record;
    e record;
BEGIN
    o_executions := 0; o_events := 0;
    IF p_deletion IS NULL THEN
        SELECT x.deletion INTO v_deletion FROM @schema@.flow_leftovers x WHERE x.due_at <= v_now
        ORDER BY x.due_at LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    SELECT x.* INTO v_found, o_count, o_messages, o_watched
    FROM @schema@.flow_delete_children(v_deletion, p_rows) AS x;
    IF coalesce(v_found, 0) < p_rows THEN
        SELECT array_agg(x.leftover_id) AS notes,
            array_agg(x.lane_id) FILTER (WHERE x.execution IS NULL) AS lanes
        INTO k FROM (
            SELECT x.leftover_id, x.lane_id, x.execution FROM @schema@.flow_leftovers x
            WHERE x.deletion = v_deletion AND x.parent IS NULL
            ORDER BY x.leftover_id LIMIT 200 FOR UPDATE SKIP LOCKED) x;
        IF k.notes IS NOT NULL THEN
            SELECT x.* INTO e FROM @schema@.flow_erase(
                k.notes, coalesce(k.lanes, '{}'), p_rows - coalesce(v_found, 0)) AS x;
            o_executions := e.o_executions; o_events := e.o_events;
            o_messages := o_messages + e.o_messages;
        END IF;
    END IF;
    o_more := EXISTS (SELECT FROM @schema@.flow_leftovers x WHERE x.deletion = v_deletion);
    IF p_deletion IS NULL THEN
        o_due_us := @schema@.hook_until((
            SELECT x.due_at FROM @schema@.flow_leftovers x ORDER BY x.due_at LIMIT 1), v_now);
        -- Another node is continuing it.
        IF v_deletion IS NULL AND o_due_us = 0 THEN
            o_due_us := 1000000;
        END IF;
    END IF;
END
$$;
