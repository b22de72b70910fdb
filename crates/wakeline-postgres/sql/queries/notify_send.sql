-- Tells the other nodes something, if there are any. Runs after the commit that it speaks of: a
-- node whose row is not visible here joined after that commit, and sees it by its first claims.
-- Called by: the notifier, in a transaction of its own with synchronous_commit off.
SELECT pg_notify('@channel@', $1) WHERE EXISTS (SELECT FROM @schema@.nodes WHERE node_id <> $2)
