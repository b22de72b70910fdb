-- Returns the indexes of the lanes that a write put something into: per command those that became
-- due first in front, and of these in the order of o_firsts (see flow_put).

CREATE OR REPLACE FUNCTION @schema@.flow_changed_lanes(
    p_lanes @schema@.flow_lanes[], p_firsts integer[], p_commands integer[],
    OUT o_fresh integer[], OUT o_by integer[])
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT coalesce(array_agg(x.i ORDER BY x.c, (p_lanes[x.i]).due_at, x.first), '{}'),
        coalesce(array_agg(x.c ORDER BY x.c, (p_lanes[x.i]).due_at, x.first), '{}')
    INTO o_fresh, o_by
    FROM unnest(p_firsts, p_commands) WITH ORDINALITY AS x (first, c, i)
    WHERE x.first IS NOT NULL AND (p_lanes[x.i]).due_at IS NOT NULL;
END
$$;
