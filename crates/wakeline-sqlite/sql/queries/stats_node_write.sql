-- Inserts or updates the statistics of a node for a slot. The minute of an existing row stays.
INSERT INTO node_stats (node, slot, bucket, cpu, memory, waiters, store_errors)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (node, slot) DO UPDATE SET
    cpu = excluded.cpu, memory = excluded.memory, waiters = excluded.waiters, store_errors =
    excluded.store_errors
