-- Notifies the other nodes, if there are any. It runs after the commit that it reports: a node
-- whose row is not visible here joined after that commit, and its first claims see it. It does not
-- wait for its own commit to be synced. The setting is that of the transaction: one of the session
-- could outlive it behind a pooler, and make commits of other clients lose their durability.
SELECT pg_notify('@channel@', $1), set_config('synchronous_commit', 'off', true)
WHERE EXISTS (SELECT FROM @schema@.nodes WHERE node_id <> $2)
