-- When a group is idle if it is not polled before; NULL: never. One that has never settled anything is
-- idle after a quarter of the time.
-- Called by: groups_holding, group_list. Reads only its parameters.

CREATE OR REPLACE FUNCTION @schema@.group_idle_at(
    p_polled_at timestamptz, p_settled boolean, p_idle_secs bigint)
RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT p_polled_at + make_interval(
        secs => nullif(p_idle_secs, 0) / CASE WHEN p_settled THEN 1.0 ELSE 4.0 END)
$$;
