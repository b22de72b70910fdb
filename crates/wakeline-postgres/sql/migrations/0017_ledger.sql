-- The ledger: how every lease ended. A lease that is out is told by its cursor; its end writes one
-- row, in the statement that ends it.

ALTER TABLE @schema@.queues ADD ledger_secs bigint NOT NULL DEFAULT 86400;
COMMENT ON COLUMN @schema@.queues.ledger_secs IS 'how long the ledger keeps an entry; 0: none is made';

ALTER TABLE @schema@.cursors
    ADD taken_at timestamptz,
    ADD taken_by text,
    ADD lease_all int8multirange,
    ADD lease_failed int8multirange,
    ADD lease_expired int8multirange,
    ADD lease_released int8multirange;
COMMENT ON COLUMN @schema@.cursors.taken_at IS 'when messages were last taken; stays after the lease';
COMMENT ON COLUMN @schema@.cursors.taken_by IS 'who took them';
COMMENT ON COLUMN @schema@.cursors.lease_all IS
    'what the lease was given; NULL while nothing of it is settled: then it is lease_set';
COMMENT ON COLUMN @schema@.cursors.lease_failed IS 'of these, what failed so far; NULL: nothing';
COMMENT ON COLUMN @schema@.cursors.lease_expired IS
    'what was given up by hand after the lease had run out; NULL: nothing';
COMMENT ON COLUMN @schema@.cursors.lease_released IS 'what was given back so far; NULL: nothing';

CREATE TABLE @schema@.ledger_entries (
    partition_id bigint NOT NULL,
    group_id integer NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    lease_token uuid,
    worker text,
    offered_at timestamptz NOT NULL,
    leased_until timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    offsets int8multirange NOT NULL,
    failed int8multirange,
    expired int8multirange,
    released int8multirange
);
-- A message is looked for among the leases that begin up to 10,000 offsets before it, and among
-- those that span more than that, of which there are few: only retries make them.
CREATE INDEX ledger_of_message ON @schema@.ledger_entries (partition_id, first_offset);
CREATE INDEX ledger_wide ON @schema@.ledger_entries (partition_id)
    WHERE last_offset > first_offset + 10000;
CREATE INDEX ledger_age ON @schema@.ledger_entries (expires_at);
COMMENT ON COLUMN @schema@.ledger_entries.lease_token IS 'NULL: settled at once (autoAck)';
COMMENT ON COLUMN @schema@.ledger_entries.offsets IS
    'what was delivered; acked is what is in none of failed, expired and released';

CREATE VIEW @schema@.ledger AS
SELECT q.name AS queue, g.name AS consumer_group, p.name AS partition, e.partition_id, e.worker,
    e.first_offset, e.last_offset, e.offered_at, e.leased_until, e.ended_at, n.delivered,
    n.delivered - n.failed - n.expired - n.released - n.open AS acked, n.failed, n.expired,
    n.released, n.open
FROM (
    SELECT x.partition_id, x.group_id, x.worker, x.first_offset, x.last_offset, x.offered_at,
        x.leased_until, x.ended_at, x.offsets, x.failed, x.expired, x.released,
        NULL::int8multirange AS open
    FROM @schema@.ledger_entries x
    UNION ALL
    SELECT c.partition_id, c.group_id, c.taken_by, lower(coalesce(c.lease_all, c.lease_set)),
        upper(coalesce(c.lease_all, c.lease_set)) - 1, c.taken_at, c.lease_until, NULL,
        coalesce(c.lease_all, c.lease_set), c.lease_failed, c.lease_expired, c.lease_released,
        c.lease_set
    FROM @schema@.cursors c WHERE c.lease_token IS NOT NULL
) e
JOIN @schema@.groups g ON g.group_id = e.group_id
JOIN @schema@.partitions p ON p.partition_id = e.partition_id
JOIN @schema@.queues q ON q.queue_id = p.queue_id
CROSS JOIN LATERAL (
    SELECT coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(e.offsets) r), 0)::bigint
            AS delivered,
        coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(e.failed) r), 0)::bigint AS failed,
        coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(e.expired) r), 0)::bigint AS expired,
        coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(e.released) r), 0)::bigint
            AS released,
        coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(e.open) r), 0)::bigint AS open
) n;
COMMENT ON VIEW @schema@.ledger IS
    'one row per lease: delivered = acked + failed + expired + released + open';
