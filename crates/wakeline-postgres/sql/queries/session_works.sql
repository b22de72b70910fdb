-- Whether the server is at work on a statement of a session; NULL if it does not say (track_activities is
-- off). One that waits to hear from its client is not at work. One that sends is: a large result takes a while.
-- Called by: Connector::works_on, on another session.
SELECT CASE WHEN a.pid IS NULL THEN false
    WHEN coalesce(a.state, 'disabled') = 'disabled' THEN NULL
    ELSE a.state = 'active'
        AND (a.wait_event_type IS DISTINCT FROM 'Client' OR a.wait_event = 'ClientWrite') END AS works
FROM (SELECT @pid@ AS pid) p LEFT JOIN pg_stat_activity a ON a.pid = p.pid
