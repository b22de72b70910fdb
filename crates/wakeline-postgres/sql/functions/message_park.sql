-- Parks messages: they wait to be delivered again. Returns how many were not parked before.
-- p_count: failures to add; p_solo: each must be delivered alone from now on; p_error NULL keeps
-- the last. Runs under the cursor's lock.

CREATE OR REPLACE FUNCTION @schema@.message_park(
    p_partition bigint, p_group integer, p_set int8multirange, p_due timestamptz,
    p_count integer, p_solo boolean, p_error text)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_fresh integer;
BEGIN
    WITH parked AS (
        INSERT INTO @schema@.retries AS r (partition_id, group_id, message_offset, failures,
            due_at, solo, error)
        SELECT p_partition, p_group, o, p_count, p_due, p_solo, p_error
        FROM unnest(p_set) AS x CROSS JOIN LATERAL generate_series(lower(x), upper(x) - 1) AS o
        ON CONFLICT (partition_id, group_id, message_offset) DO UPDATE SET
            failures = r.failures + p_count, due_at = excluded.due_at,
            solo = r.solo OR excluded.solo, error = coalesce(excluded.error, r.error)
        RETURNING xmax = 0 AS fresh
    )
    SELECT count(*) FILTER (WHERE fresh) INTO v_fresh FROM parked;
    RETURN v_fresh;
END
$$;
