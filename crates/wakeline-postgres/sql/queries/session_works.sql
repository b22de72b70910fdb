-- Returns whether the server executes a statement of a session; NULL if it does not report this
-- (track_activities is off). A session that waits for its client does not execute one. A session
-- that sends does: sending a large result takes a while.
SELECT CASE WHEN a.pid IS NULL THEN false
    WHEN coalesce(a.state, 'disabled') = 'disabled' THEN NULL
    ELSE a.state = 'active'
        AND (a.wait_event_type IS DISTINCT FROM 'Client' OR a.wait_event = 'ClientWrite') END AS works
FROM (SELECT @pid@ AS pid) p LEFT JOIN pg_stat_activity a ON a.pid = p.pid
