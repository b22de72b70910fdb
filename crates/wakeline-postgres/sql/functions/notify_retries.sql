-- Trigger on retries, once per statement that changes some: a parked message may be due earlier.
-- Claims read cursors, so its cursor becomes due with it, which notifies. A leased cursor notices
-- it when the lease ends. Runs with the rights of its owner. Lock order: cursors, after the retries
-- that the statement has changed. A transaction that holds a cursor may wait for these: PostgreSQL
-- then ends one of the two transactions.

CREATE OR REPLACE FUNCTION @schema@.notify_retries() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE @schema@.cursors c SET due_at = least(c.due_at, x.due_at)
    FROM (
        SELECT f.partition_id, f.group_id, min(f.due_at) AS due_at FROM fresh f GROUP BY 1, 2) x
    WHERE c.partition_id = x.partition_id AND c.group_id = x.group_id
        AND c.lease_token IS NULL AND (c.due_at IS NULL OR c.due_at > x.due_at);
    RETURN NULL;
END
$$;
-- Otherwise any role could attach it to a table of its own, and have the owner write for it.
REVOKE EXECUTE ON FUNCTION @schema@.notify_retries() FROM PUBLIC;
