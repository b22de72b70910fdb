-- Returns the microseconds until a line has something to claim; NULL if there is nothing. A claim
-- has just seen p_seen; anything else that is due is locked by other claims (o_code 2). The first
-- due time may be too early, because settling leaves due_at unchanged. A few of these are computed
-- again here, so that an idle line is not woken in error; not so in a claim that found something
-- (p_busy), because another will follow. p_fresh: first attempts only. Ordered endpoints whose
-- first attempts wait after a due head are skipped: the end of its attempt is notified. As a
-- safeguard, the line checks again in a second. p_full: applications that may get nothing now;
-- their endpoints do not count. Lock order: see hook_claim_line; all without waiting.

CREATE OR REPLACE FUNCTION @schema@.hook_next_due(
    p_pull uuid, p_fresh boolean, p_seen uuid[], p_now timestamptz, p_busy boolean,
    p_full uuid[],
    OUT o_code smallint, OUT o_due_us bigint)
LANGUAGE plpgsql AS $$
DECLARE
    c record;
    v_last uuid;
    -- The last one that was skipped.
    v_due timestamptz := '-infinity';
    v_served bigint := -1;
    v_passed uuid := '00000000-0000-0000-0000-000000000000';
    v_most bigint;
BEGIN
    o_code := 0;
    FOR v_try IN 1..16 LOOP
        IF p_pull IS NOT NULL THEN
            SELECT s.endpoint_id, s.due_at, s.served, s.rate_at INTO c
            FROM @schema@.hook_states s
            WHERE s.endpoint_id = p_pull AND s.pull AND s.due_at IS NOT NULL
                AND s.disabled IS NULL AND s.endpoint_id <> v_passed;
        ELSIF p_fresh THEN
            SELECT s.endpoint_id, s.due_at, s.served, s.rate_at INTO c
            FROM @schema@.hook_states s
            WHERE NOT s.pull AND s.fresh AND s.due_at IS NOT NULL AND s.disabled IS NULL
                AND (s.due_at, s.served, s.endpoint_id) > (v_due, v_served, v_passed)
                AND (p_full = '{}' OR (SELECT e.application_id FROM @schema@.hook_endpoints e
                    WHERE e.endpoint_id = s.endpoint_id) <> ALL (p_full))
            ORDER BY s.due_at, s.served, s.endpoint_id LIMIT 1;
        ELSE
            SELECT s.endpoint_id, s.due_at, s.served, s.rate_at INTO c
            FROM @schema@.hook_states s
            WHERE NOT s.pull AND s.due_at IS NOT NULL AND s.disabled IS NULL
                AND (p_full = '{}' OR (SELECT e.application_id FROM @schema@.hook_endpoints e
                    WHERE e.endpoint_id = s.endpoint_id) <> ALL (p_full))
            ORDER BY s.due_at, s.served, s.endpoint_id LIMIT 1;
        END IF;
        o_due_us := NULL;
        EXIT WHEN c.endpoint_id IS NULL;
        o_due_us := @schema@.hook_until(c.due_at, p_now);
        IF c.due_at <= p_now THEN
            IF c.endpoint_id <> ALL (p_seen) THEN
                o_code := 2; o_due_us := 2000;
                RETURN;
            ELSIF NOT p_fresh THEN
                RETURN;
            END IF;
            -- It is due, but perhaps not for a first attempt.
            IF c.endpoint_id = v_last THEN
                IF @schema@.hook_first_due(c.endpoint_id, (
                    SELECT e.fifo_batch IS NOT NULL FROM @schema@.hook_endpoints e
                    WHERE e.endpoint_id = c.endpoint_id), true) <= p_now
                THEN
                    RETURN;
                END IF;
                v_due := c.due_at; v_served := c.served; v_passed := c.endpoint_id;
                v_most := 1000000; o_due_us := v_most;
                CONTINUE;
            END IF;
            -- If the attempts are used up here, the result is not zero, because it is unknown
            -- whether there is something.
            o_due_us := 2000;
        END IF;
        EXIT WHEN c.endpoint_id = v_last OR p_busy AND c.due_at > p_now;
        v_last := c.endpoint_id;
        PERFORM FROM @schema@.hook_states s WHERE s.endpoint_id = c.endpoint_id
        FOR NO KEY UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        PERFORM @schema@.hook_reschedule(ARRAY[c.endpoint_id], ARRAY[false], ARRAY[NULL::bigint],
            ARRAY[c.rate_at], p_now);
    END LOOP;
    o_due_us := least(o_due_us, v_most);
END
$$;
