-- Trigger on flow_messages, once per statement: messages of instances were added, or their time
-- changed. Claims read lanes, so their lanes become due with them, which notifies. A leased lane
-- notices them when its turn ends. The messages of such a turn are recognised by time and position:
-- a message that was moved to a time before the lease would be removed with a turn that never saw
-- it, so it is visible from now on. Runs with the rights of its owner. Lock order: lanes by id,
-- after the messages that the statement has changed. A transaction that holds a lane may wait for
-- these: PostgreSQL then ends one of the two transactions.

CREATE OR REPLACE FUNCTION @schema@.notify_flow_messages() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_lanes bigint[] := ARRAY(SELECT DISTINCT f.lane_id FROM fresh f);
BEGIN
    IF v_lanes = '{}' THEN
        RETURN NULL;
    END IF;
    PERFORM FROM @schema@.flow_lanes l WHERE l.lane_id = ANY (v_lanes)
    ORDER BY l.lane_id FOR NO KEY UPDATE;
    IF TG_OP = 'UPDATE' THEN
        UPDATE @schema@.flow_messages m SET visible_at = @schema@.clock()
        FROM fresh f
        JOIN stale o USING (lane_id, seq)
        JOIN @schema@.flow_lanes l USING (lane_id)
        WHERE m.lane_id = f.lane_id AND m.seq = f.seq AND l.lease_token IS NOT NULL
            AND f.seq <= l.lease_seq AND f.visible_at <= l.lease_at AND o.visible_at > l.lease_at;
    END IF;
    UPDATE @schema@.flow_lanes l SET next_seq = greatest(l.next_seq, x.seq + 1),
        due_at = CASE
            WHEN l.capability_id IS NULL OR l.suspended IS NOT NULL OR l.lease_token IS NOT NULL
            THEN l.due_at ELSE least(l.due_at, x.visible_at) END
    FROM (
        SELECT f.lane_id, max(f.seq) AS seq, min(f.visible_at) AS visible_at
        FROM fresh f GROUP BY f.lane_id) x
    WHERE l.lane_id = x.lane_id;
    RETURN NULL;
END
$$;
-- Otherwise any role could attach it to a table of its own, and have the owner write for it.
REVOKE EXECUTE ON FUNCTION @schema@.notify_flow_messages() FROM PUBLIC;
