-- Tells the other nodes something, if there are any, as notify_send does. Sent right behind the
-- push that it speaks of, on the same connection, before that is answered: a transaction of its own
-- all the same, and after the push's commit. Nothing waits for its own commit to be synced.
-- Called by: Link::query_then, for the first push after a pause.
SELECT pg_notify('@channel@', $1), set_config('synchronous_commit', 'off', true)
WHERE EXISTS (SELECT FROM @schema@.nodes WHERE node_id <> $2)
