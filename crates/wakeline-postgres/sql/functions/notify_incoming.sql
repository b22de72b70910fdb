-- Trigger on incoming, once per statement: a node has to take rows over, new ones or rows that are
-- no longer refused.

CREATE OR REPLACE FUNCTION @schema@.notify_incoming() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('@channel@', '{"k":"incoming"}');
    RETURN NULL;
END
$$;
