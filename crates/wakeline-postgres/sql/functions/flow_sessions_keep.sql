-- Extends the sessions of some owners to a span from now: those that are live and were active
-- within the idle time. Without owners it removes the sessions that have expired and for which no
-- work waits. A span of zero ends the sessions instead. The first row contains their number; after
-- an end the other rows contain the tags and names of their work. Lock order: sessions by name.

CREATE OR REPLACE FUNCTION @schema@.flow_sessions_keep(
    p_owners text[], p_span_us bigint, p_idle_us bigint)
RETURNS TABLE (kept bigint, tag text, name text)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
    v_sessions text[];
BEGIN
    IF p_owners = '{}' THEN
        v_sessions := ARRAY(SELECT s.session FROM @schema@.flow_sessions s
            WHERE s.owned_until <= v_now
            ORDER BY s.session FOR UPDATE SKIP LOCKED);
        DELETE FROM @schema@.flow_sessions s
        WHERE s.session = ANY (v_sessions) AND NOT EXISTS (
            SELECT FROM @schema@.flow_work w WHERE w.session = s.session);
        GET DIAGNOSTICS kept = ROW_COUNT;
        RETURN NEXT;
        RETURN;
    END IF;
    v_sessions := ARRAY(SELECT s.session FROM @schema@.flow_sessions s
        WHERE s.owner = ANY (p_owners) ORDER BY s.session FOR NO KEY UPDATE);
    v_now := @schema@.clock();
    IF p_span_us = 0 THEN
        UPDATE @schema@.flow_sessions s SET owned_until = v_now
        WHERE s.session = ANY (v_sessions) AND s.owner = ANY (p_owners) AND s.owned_until > v_now;
        GET DIAGNOSTICS kept = ROW_COUNT;
        RETURN NEXT;
        RETURN QUERY SELECT 0::bigint, t.name, n.name FROM (
            SELECT DISTINCT w.tag_id, w.name_id FROM @schema@.flow_work w
            WHERE w.session = ANY (v_sessions)) x
        LEFT JOIN @schema@.flow_tags t ON t.tag_id = x.tag_id
        LEFT JOIN @schema@.flow_activity_names n ON n.name_id = x.name_id;
        RETURN;
    END IF;
    UPDATE @schema@.flow_sessions s SET
        owned_until = greatest(s.owned_until, v_now + p_span_us * interval '1 microsecond')
    WHERE s.session = ANY (v_sessions) AND s.owner = ANY (p_owners) AND s.owned_until > v_now
        AND s.active_at >= v_now - p_idle_us * interval '1 microsecond';
    GET DIAGNOSTICS kept = ROW_COUNT;
    RETURN NEXT;
END
$$;
