-- Trigger on tables of webhooks that hold background work, once per statement: background work was
-- added.

CREATE OR REPLACE FUNCTION @schema@.notify_hook_background() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM @schema@.notify_hints('hook', '[["chores", 0]]');
    RETURN NULL;
END
$$;
