-- Instances of which executions would go by flow_prune, at most p_limit, those that ended first in
-- front; p_instances: only these, NULL for all; p_before: only those that ended before.
-- Planned for its parameters each time: which of them are given decides which index serves.
-- Called by: FlowAdmin::prune. Reads only.

CREATE OR REPLACE FUNCTION @schema@.flow_prunable(
    p_instances text[], p_before timestamptz, p_limit bigint, p_keep bigint,
    p_ended_before timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET jit = off SET plan_cache_mode = force_custom_plan SET enable_seqscan = off AS $$
BEGIN
    RETURN ARRAY(
        SELECT i.lane_id FROM @schema@.flow_instances i
        WHERE (p_before IS NULL OR i.ended_at < p_before)
            AND (p_instances IS NULL OR i.instance = ANY (p_instances))
            AND i.execution > greatest(p_keep, 1)
            AND EXISTS (
                SELECT FROM (
                    SELECT e.ended_at FROM @schema@.flow_executions e
                    WHERE e.lane_id = i.lane_id ORDER BY e.execution DESC
                    OFFSET greatest(p_keep, 1)) e
                WHERE p_ended_before IS NULL OR e.ended_at < p_ended_before)
        ORDER BY i.ended_at NULLS FIRST, i.instance LIMIT p_limit);
END
$$;
