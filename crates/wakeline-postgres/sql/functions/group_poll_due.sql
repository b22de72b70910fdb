-- Returns when a poll of a group is recorded again: after a tenth of the time after which it would
-- be idle, and after an hour at the latest. Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.group_poll_due(
    p_polled_at timestamptz, p_settled boolean, p_idle_secs bigint)
RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT p_polled_at + make_interval(secs => least(3600, coalesce(
        nullif(p_idle_secs, 0) / CASE WHEN p_settled THEN 10.0 ELSE 40.0 END, 3600)))
$$;
