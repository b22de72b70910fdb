-- Tells everyone something, the sender too. Called by: HintListener, to see whether its LISTEN works.
SELECT pg_notify('@channel@', $1)
