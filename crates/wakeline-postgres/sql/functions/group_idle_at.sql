-- Returns when a group becomes idle if it is not polled before; NULL: never. A group that has never
-- settled anything is idle after a quarter of the time. Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.group_idle_at(
    p_polled_at timestamptz, p_settled boolean, p_idle_secs bigint)
RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT p_polled_at + make_interval(
        secs => nullif(p_idle_secs, 0) / CASE WHEN p_settled THEN 1.0 ELSE 4.0 END)
$$;
