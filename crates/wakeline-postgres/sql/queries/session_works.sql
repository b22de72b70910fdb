-- Whether the server is at work on a statement of a session. One that waits for its client is not: what it has to
-- say does not get through.
-- Called by: Connector::works_on, on another session.
SELECT EXISTS (
    SELECT FROM pg_stat_activity a
    WHERE a.pid = @pid@ AND a.state = 'active' AND a.wait_event_type IS DISTINCT FROM 'Client') AS works
