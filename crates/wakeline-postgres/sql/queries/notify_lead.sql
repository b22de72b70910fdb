-- Notifies the other nodes, if there are any, as notify_send does. It is sent directly after the
-- push that it reports, on the same connection, before that is answered; still it is a transaction
-- of its own, after the push's commit. It does not wait for its own commit to be synced. It is used
-- for the first push after a pause.
SELECT pg_notify('@channel@', $1), set_config('synchronous_commit', 'off', true)
WHERE EXISTS (SELECT FROM @schema@.nodes WHERE node_id <> $2)
