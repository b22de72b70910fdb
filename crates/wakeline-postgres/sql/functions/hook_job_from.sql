-- Returns where a job begins that only reads what was stored since a time: a position before which
-- there are only older messages of the application. It is found by binary search: ids begin with
-- the time at which they were generated, which is at most a day before the message is stored. Being
-- a few hours early is precise enough. Reads only; 24 index probes.

CREATE OR REPLACE FUNCTION @schema@.hook_job_from(p_app uuid, p_since timestamptz) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_low bigint := 0;
    v_high bigint := 1::bigint << 48;
    v_half bigint;
    v_at timestamptz;
BEGIN
    WHILE p_since IS NOT NULL AND v_high - v_low > 1 << 24 LOOP
        v_half := (v_low + v_high) / 2;
        SELECT m.created_at INTO v_at FROM @schema@.hook_messages m
        WHERE m.application_id = p_app
            AND m.message_id >= (lpad(to_hex(v_half), 12, '0') || repeat('0', 20))::uuid
        ORDER BY m.message_id LIMIT 1;
        IF v_at < p_since - interval '24 hours' THEN
            v_low := v_half;
        ELSE
            v_high := v_half;
        END IF;
    END LOOP;
    RETURN (lpad(to_hex(v_low), 12, '0') || repeat('0', 20))::uuid;
END
$$;
