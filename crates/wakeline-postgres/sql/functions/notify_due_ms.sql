-- Returns in how many milliseconds something is due: 0 if it is already, NULL if it never will be.

CREATE OR REPLACE FUNCTION @schema@.notify_due_ms(p_due timestamptz, p_now timestamptz)
RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_due <= p_now THEN 0
        WHEN p_due < 'infinity' THEN ceil(extract(epoch FROM p_due - p_now) * 1000)::bigint END
$$;
