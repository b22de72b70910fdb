-- The running nodes, so that each knows whether anybody listens to its hints.
-- A row is alive while its session advisory lock is held by the node's LISTEN connection.

CREATE TABLE @schema@.nodes (
    node_id uuid PRIMARY KEY,
    lock_key bigint NOT NULL,
    joined_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
