-- Makes a queue, its groups and its subscriptions disappear in one short transaction; true if it
-- existed. All rows are found through queues and groups, so messages, cursors and dead letters
-- disappear with them; queue_purge removes them. Lock order: the queue FOR UPDATE, its groups, its
-- row in housekeeping.

CREATE OR REPLACE FUNCTION @schema@.queue_delete(p_queue text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_queue integer;
BEGIN
    DELETE FROM @schema@.subscriptions s WHERE s.queue = p_queue;
    SELECT q.queue_id INTO v_queue FROM @schema@.queues q WHERE q.name = p_queue FOR UPDATE;
    IF v_queue IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO @schema@.deleted_queues (queue_id) VALUES (v_queue);
    DELETE FROM @schema@.groups g WHERE g.queue_id = v_queue;
    DELETE FROM @schema@.housekeeping h WHERE h.queue_id = v_queue;
    DELETE FROM @schema@.queues q WHERE q.queue_id = v_queue;
    RETURN true;
END
$$;
