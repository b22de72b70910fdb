-- Writes how a node was in a slot, anew if need be; its minute stays. Called by: stats::record.
INSERT INTO node_stats (node, slot, bucket, cpu, memory, waiters, store_errors)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (node, slot) DO UPDATE SET
    cpu = excluded.cpu, memory = excluded.memory, waiters = excluded.waiters, store_errors =
    excluded.store_errors
