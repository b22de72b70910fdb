-- Applies the settings of a session. If the session is shared with other clients, as behind a
-- pooler in transaction mode, they apply only to the transaction: a setting that stayed would
-- affect other clients. A session is this client's own if it has the mark that the client sent when
-- it connected. A default of synchronous_commit that confirms commits before they are on disk, or
-- on the synchronous standbys if there are any, is strengthened; a stronger one (remote_apply)
-- stays. It is set in any case, so that a default that is weakened later does not affect this
-- session. wakeline.hints: the node, not the triggers, notifies other nodes of the session's
-- commits. It runs for each new session, and at the begin of each transaction of a shared one.
SELECT s.shared, pg_backend_pid() AS pid,
    set_config('statement_timeout', '@statement_ms@', s.shared),
    set_config('idle_in_transaction_session_timeout', '@idle_ms@', s.shared),
    set_config('wakeline.node', '@node@', s.shared),
    set_config('wakeline.hints', '@hints@', s.shared),
    set_config('client_min_messages', 'warning', s.shared),
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, s.shared)
FROM (SELECT coalesce(current_setting('wakeline.session', true), '') <> '@mark@' AS shared) s
