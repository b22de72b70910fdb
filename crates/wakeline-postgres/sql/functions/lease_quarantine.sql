-- Quarantines corrupt messages: releases their leases without counting a failure, and makes claims
-- skip their cursors for a while; if they were due at once, every claim of the queue would find
-- them first. Lock order: as release.

CREATE OR REPLACE FUNCTION @schema@.lease_quarantine(
    p_partitions bigint[], p_groups integer[], p_tokens uuid[], p_secs double precision)
RETURNS void
LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off AS $$
BEGIN
    PERFORM FROM @schema@.release(p_partitions, p_groups, p_tokens);
    UPDATE @schema@.cursors c SET due_at = @schema@.clock() + make_interval(secs => p_secs)
    FROM unnest(p_partitions, p_groups) AS x (partition_id, group_id)
    WHERE c.partition_id = x.partition_id AND c.group_id = x.group_id
        AND c.due_at IS NOT NULL AND c.lease_token IS NULL;
END
$$;
