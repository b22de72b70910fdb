-- Extends a valid lease to p_span_ms from now. The end of a lease is never moved to an earlier time.
-- Returns the cursors that the lease still holds, with its new end. due_at is moved with the end of
-- the lease, because claims look for cursors by due_at. Lock order: cursors by (partition, group).

CREATE OR REPLACE FUNCTION @schema@.extend(
    p_partitions bigint[], p_groups integer[], p_token uuid, p_span_ms double precision)
RETURNS TABLE (partition_id bigint, group_id integer, lease_until timestamptz)
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_until timestamptz;
BEGIN
    PERFORM FROM unnest(p_partitions, p_groups) AS u (partition_id, group_id)
    JOIN @schema@.cursors k ON k.partition_id = u.partition_id AND k.group_id = u.group_id
    WHERE k.lease_token = p_token
    ORDER BY k.partition_id, k.group_id
    FOR NO KEY UPDATE OF k;
    v_now := @schema@.clock();
    v_until := v_now + make_interval(secs => p_span_ms / 1000);
    RETURN QUERY
    UPDATE @schema@.cursors k
    SET lease_until = greatest(k.lease_until, v_until), due_at = greatest(k.lease_until, v_until)
    FROM unnest(p_partitions, p_groups) AS u (partition_id, group_id)
    WHERE k.partition_id = u.partition_id AND k.group_id = u.group_id
        AND k.lease_token = p_token AND k.lease_until > v_now
        AND EXISTS (SELECT FROM @schema@.groups g WHERE g.group_id = k.group_id)
    RETURNING k.partition_id, k.group_id, k.lease_until;
END
$$;
