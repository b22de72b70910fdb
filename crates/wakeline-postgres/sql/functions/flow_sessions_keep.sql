-- Moves the end of the sessions of some owners to a span from now: those that are live and were
-- active within the idle time. Without owners it removes the sessions that have expired and for
-- which no work waits. Returns how many.
-- Called by: FlowStore::keep_sessions. Lock order: sessions by name.

CREATE OR REPLACE FUNCTION @schema@.flow_sessions_keep(
    p_owners text[], p_span_us bigint, p_idle_us bigint)
RETURNS bigint
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_sessions text[];
    v_count bigint;
BEGIN
    IF p_owners = '{}' THEN
        v_sessions := ARRAY(SELECT s.session FROM @schema@.flow_sessions s
            WHERE s.owned_until <= v_now
            ORDER BY s.session FOR UPDATE SKIP LOCKED);
        DELETE FROM @schema@.flow_sessions s
        WHERE s.session = ANY (v_sessions) AND NOT EXISTS (
            SELECT FROM @schema@.flow_work w WHERE w.session = s.session);
        GET DIAGNOSTICS v_count = ROW_COUNT;
        RETURN v_count;
    END IF;
    v_sessions := ARRAY(SELECT s.session FROM @schema@.flow_sessions s
        WHERE s.owner = ANY (p_owners) ORDER BY s.session FOR NO KEY UPDATE);
    v_now := @schema@.clock();
    UPDATE @schema@.flow_sessions s SET
        owned_until = greatest(s.owned_until, v_now + p_span_us * interval '1 microsecond')
    WHERE s.session = ANY (v_sessions) AND s.owner = ANY (p_owners) AND s.owned_until > v_now
        AND s.active_at >= v_now - p_idle_us * interval '1 microsecond';
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
