-- Installs or removes the triggers of notify = trigger. Changes nothing, and needs no right, if
-- they are as wanted. It removes none while another node that listens wants them: that node holds
-- p_wanting, shared, on its LISTEN connection; nor for a role that does not own the tables, for
-- which they do no harm. Returns whether it changed something. Nodes send hints after their
-- commits, so triggers ignore the sessions of nodes: those that say so (wakeline.hints) if older
-- releases rely on triggers, else all (wakeline.node). Triggers are replaced, not dropped and
-- created: that waits for writers and delays no reader. Lock order: the migrations' advisory lock
-- (p_lock), then the tables.

CREATE OR REPLACE FUNCTION @schema@.notify_install(
    p_wanted boolean, p_lock bigint, p_wanting bigint)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    -- Table, trigger, event, function, and the setting of the sessions that it ignores. Older
    -- releases know one trigger on each of the first three tables, by this name.
    v_all CONSTANT text[] := ARRAY[
        ['incoming', 'wakeline_notify', 'INSERT OR UPDATE OF refused', 'notify_incoming', 'hints'],
        ['segments', 'wakeline_notify', 'INSERT', 'notify_segments', 'hints'],
        ['cursors', 'wakeline_notify', 'UPDATE', 'notify_cursors', 'hints'],
        ['cursors', 'wakeline_notify_insert', 'INSERT', 'notify_cursors', 'node'],
        ['retries', 'wakeline_notify', 'UPDATE', 'notify_retries', 'node'],
        ['scheduled', 'wakeline_notify', 'UPDATE', 'notify_scheduled', 'node'],
        ['scheduled', 'wakeline_notify_insert', 'INSERT', 'notify_scheduled', 'node'],
        ['flow_lanes', 'wakeline_notify', 'UPDATE', 'notify_flow_lanes', 'node'],
        ['flow_lanes', 'wakeline_notify_insert', 'INSERT', 'notify_flow_lanes', 'node'],
        ['flow_messages', 'wakeline_notify', 'UPDATE', 'notify_flow_messages', 'node'],
        ['flow_messages', 'wakeline_notify_insert', 'INSERT', 'notify_flow_messages', 'node'],
        ['flow_work', 'wakeline_notify', 'UPDATE', 'notify_flow_work', 'node'],
        ['flow_work', 'wakeline_notify_insert', 'INSERT', 'notify_flow_work', 'node'],
        ['flow_instances', 'wakeline_notify', 'UPDATE', 'notify_flow_instances', 'node'],
        ['hook_states', 'wakeline_notify', 'UPDATE', 'notify_hook_states', 'node'],
        ['hook_states', 'wakeline_notify_insert', 'INSERT', 'notify_hook_states', 'node'],
        ['hook_deliveries', 'wakeline_notify', 'UPDATE', 'notify_hook_deliveries', 'node'],
        ['hook_deliveries', 'wakeline_notify_insert', 'INSERT', 'notify_hook_deliveries', 'node'],
        ['hook_jobs', 'wakeline_notify', 'UPDATE OF finished_at', 'notify_hook_background', 'node'],
        ['hook_jobs', 'wakeline_notify_insert', 'INSERT', 'notify_hook_background', 'node'],
        ['hook_fan_outs', 'wakeline_notify', 'INSERT', 'notify_hook_background', 'node']];
    v_wanted text[] := '{}';
    v_present text[];
    v_name text;
    t text[];
BEGIN
    IF p_wanted THEN
        v_wanted := ARRAY(
            SELECT v_all[i][1] || ' ' || v_all[i][2] FROM generate_subscripts(v_all, 1) AS i);
    END IF;
    FOR v_look IN 1..2 LOOP
        -- Triggers of older releases without a condition are not as wanted. Further triggers of a
        -- newer release are left unchanged.
        v_present := ARRAY(
            SELECT c.relname || ' ' || g.tgname
            FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
            WHERE c.relnamespace = '@schema@'::regnamespace
                AND g.tgname LIKE 'wakeline\_notify%' AND (g.tgqual IS NOT NULL OR NOT p_wanted));
        IF p_wanted AND v_wanted <@ v_present OR NOT p_wanted AND v_present = '{}' THEN
            RETURN false;
        END IF;
        -- Nodes that start concurrently run this one after another; all but the first find it done.
        PERFORM pg_advisory_xact_lock(p_lock);
    END LOOP;
    IF NOT p_wanted AND (NOT pg_try_advisory_xact_lock(p_wanting) OR NOT pg_has_role((
        SELECT c.relowner FROM pg_class c WHERE c.oid = '@schema@.incoming'::regclass), 'USAGE'))
    THEN
        RETURN false;
    END IF;
    IF NOT p_wanted THEN
        -- They do no harm, so this does not wait for a long reader of a table.
        PERFORM set_config('lock_timeout', '1s', true);
        FOREACH v_name IN ARRAY v_present LOOP
            EXECUTE format('DROP TRIGGER %I ON @schema@.%I',
                split_part(v_name, ' ', 2), split_part(v_name, ' ', 1));
        END LOOP;
    ELSE
        FOREACH t SLICE 1 IN ARRAY v_all LOOP
            EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER %s ON @schema@.%I %s FOR EACH STATEMENT
                WHEN (coalesce(current_setting(%L, true), %L) = %L)
                EXECUTE FUNCTION @schema@.%I()', t[2], t[3], t[1], CASE t[3]
                    WHEN 'INSERT' THEN 'REFERENCING NEW TABLE AS fresh'
                    WHEN 'UPDATE' THEN 'REFERENCING OLD TABLE AS stale NEW TABLE AS fresh'
                    ELSE '' END, 'wakeline.' || t[5], '', '', t[4]);
        END LOOP;
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;
