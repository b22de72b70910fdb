-- Groups that nobody polls any more: when a group was last polled, whether it has ever settled anything,
-- and after how long without a poll it no longer holds messages back. Groups that exist count as polled
-- now, and as ones that have worked.

ALTER TABLE @schema@.queues ADD group_idle_secs bigint NOT NULL DEFAULT 2419200;

ALTER TABLE @schema@.groups
    ADD polled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD settled boolean NOT NULL DEFAULT true;
-- A node of the release before makes groups without naming these columns. Its groups are treated as
-- ones that have worked, too.
COMMENT ON COLUMN @schema@.groups.polled_at IS
    'the last poll that was recorded: at most an hour older than the last one';
COMMENT ON COLUMN @schema@.groups.settled IS 'it has settled a message at some time';

-- In a new schema functions are installed after all migrations; the view needs this one now. It is
-- replaced then.
DO $$
BEGIN
    IF to_regprocedure('@schema@.clock()') IS NULL THEN
        CREATE FUNCTION @schema@.clock() RETURNS timestamptz
        LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT clock_timestamp()';
    END IF;
END
$$;

CREATE OR REPLACE VIEW @schema@.consumer_groups AS
SELECT q.name AS queue, g.name AS consumer_group,
    CASE g.mode WHEN 0 THEN 'all' WHEN 1 THEN 'new' ELSE 'from' END AS subscription, g.from_at,
    g.created_at, l.partitions, l.partitions_behind, l.lag, g.polled_at,
    CASE WHEN i.idle_at <= @schema@.clock() THEN i.idle_at END AS idle_since
FROM @schema@.groups g
JOIN @schema@.queues q USING (queue_id)
CROSS JOIN LATERAL (
    SELECT g.polled_at + make_interval(secs => nullif(q.group_idle_secs, 0)
        / CASE WHEN g.settled THEN 1.0 ELSE 4.0 END) AS idle_at) i
CROSS JOIN LATERAL (
    SELECT count(*) AS partitions,
        count(*) FILTER (WHERE x.unread + x.parked + x.unsettled > 0) AS partitions_behind,
        coalesce(sum(x.unread + x.parked + x.unsettled), 0)::bigint AS lag
    FROM @schema@.consumer_lag x
    WHERE x.queue = q.name AND x.consumer_group = g.name) l;
COMMENT ON VIEW @schema@.consumer_groups IS
    'one row per queue and group; lag: messages that are unread, parked or unsettled; idle_since: when it went without a poll for too long, if it did';
