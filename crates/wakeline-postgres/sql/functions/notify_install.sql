-- Puts the triggers of notify = trigger in place, or takes them away. Changes nothing, and asks for
-- no right, if they are as wanted. Returns whether it changed something.
-- Called by: PostgresStore::connect. Lock order: the migrations' advisory lock, then the tables.

CREATE OR REPLACE FUNCTION @schema@.notify_install(p_wanted boolean, p_lock bigint)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_tables regclass[] := ARRAY['@schema@.segments'::regclass, '@schema@.cursors'::regclass,
                                 '@schema@.incoming'::regclass];
BEGIN
    FOR v_look IN 1..2 LOOP
        IF (SELECT count(*) FROM pg_trigger
            WHERE tgrelid = ANY (v_tables) AND tgname = 'wakeline_notify')
            = (CASE WHEN p_wanted THEN 3 ELSE 0 END)
        THEN
            RETURN false;
        END IF;
        -- Nodes that start at once come here one after another; all but the first find it done.
        PERFORM pg_advisory_xact_lock(p_lock);
    END LOOP;
    DROP TRIGGER IF EXISTS wakeline_notify ON @schema@.segments;
    DROP TRIGGER IF EXISTS wakeline_notify ON @schema@.cursors;
    DROP TRIGGER IF EXISTS wakeline_notify ON @schema@.incoming;
    IF p_wanted THEN
        CREATE TRIGGER wakeline_notify AFTER INSERT ON @schema@.segments
            REFERENCING NEW TABLE AS fresh
            FOR EACH STATEMENT EXECUTE FUNCTION @schema@.notify_segments();
        CREATE TRIGGER wakeline_notify AFTER UPDATE ON @schema@.cursors
            REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
            FOR EACH STATEMENT EXECUTE FUNCTION @schema@.notify_cursors();
        CREATE TRIGGER wakeline_notify AFTER INSERT ON @schema@.incoming
            FOR EACH STATEMENT EXECUTE FUNCTION @schema@.notify_incoming();
    END IF;
    RETURN true;
END
$$;
