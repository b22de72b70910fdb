-- What happened, minute by minute: nodes write down what they counted. A node writes a slot of about
-- a minute as a whole, and again while the slot lasts.

CREATE TABLE @schema@.queue_stats (
    node uuid NOT NULL,
    slot integer NOT NULL,
    queue text NOT NULL,
    bucket timestamptz NOT NULL,
    push_requests bigint NOT NULL,
    push_messages bigint NOT NULL,
    push_duplicates bigint NOT NULL,
    pop_requests bigint NOT NULL,
    pop_messages bigint NOT NULL,
    pop_empty bigint NOT NULL,
    ack_requests bigint NOT NULL,
    ack_success bigint NOT NULL,
    ack_failed bigint NOT NULL,
    dead_letters bigint NOT NULL,
    transactions bigint NOT NULL,
    lag_sum bigint NOT NULL,
    lag_max bigint NOT NULL,
    expired bigint NOT NULL,
    evicted bigint NOT NULL,
    dropped bigint NOT NULL,
    removed bigint NOT NULL,
    parked bigint NOT NULL,
    PRIMARY KEY (node, slot, queue)
);
CREATE INDEX queue_stats_bucket ON @schema@.queue_stats (bucket);
COMMENT ON TABLE @schema@.queue_stats IS 'what nodes counted of queues, a minute a row';
COMMENT ON COLUMN @schema@.queue_stats.node IS 'made by a node when it starts';
COMMENT ON COLUMN @schema@.queue_stats.queue IS 'empty: of no queue, or of too many';
COMMENT ON COLUMN @schema@.queue_stats.bucket IS 'the minute in which the slot began';
COMMENT ON COLUMN @schema@.queue_stats.lag_sum IS 'microseconds from push to delivery';

CREATE TABLE @schema@.node_stats (
    node uuid NOT NULL,
    slot integer NOT NULL,
    bucket timestamptz NOT NULL,
    cpu bigint NOT NULL,
    memory bigint NOT NULL,
    waiters bigint NOT NULL,
    store_errors bigint NOT NULL,
    PRIMARY KEY (node, slot)
);
CREATE INDEX node_stats_bucket ON @schema@.node_stats (bucket);
COMMENT ON TABLE @schema@.node_stats IS 'how nodes were, a minute a row';
COMMENT ON COLUMN @schema@.node_stats.cpu IS 'microseconds of processor time';
