-- Sends a notification to all nodes, including the sender.
SELECT pg_notify('@channel@', $1)
