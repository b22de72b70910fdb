-- Tells the other nodes something, if there are any. Runs after the commit that it speaks of: a
-- node whose row is not visible here joined after that commit, and sees it by its first claims.
-- Nothing waits for its own commit to be synced. The setting is the transaction's: one of the session
-- could outlive it behind a pooler, and make commits of others lose what they promised.
-- Called by: the notifier, in a transaction of its own.
SELECT pg_notify('@channel@', $1), set_config('synchronous_commit', 'off', true)
WHERE EXISTS (SELECT FROM @schema@.nodes WHERE node_id <> $2)
