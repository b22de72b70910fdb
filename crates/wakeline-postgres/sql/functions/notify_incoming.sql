-- Trigger on incoming, once per statement: a node has to take rows over.
-- Called by: the trigger wakeline_notify, which notify_install makes under notify = trigger.

CREATE OR REPLACE FUNCTION @schema@.notify_incoming() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('@channel@', '{"k":"incoming"}');
    RETURN NULL;
END
$$;
