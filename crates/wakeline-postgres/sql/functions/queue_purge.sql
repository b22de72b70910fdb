-- Removes some rows of deleted queues; true if there may be more. Call it until it returns false.
-- Lock order: the deleted queue (skipped if another node is purging it), its partitions by id: it
-- waits for a push that has locked one, so that the push leaves no rows behind.

CREATE OR REPLACE FUNCTION @schema@.queue_purge() RETURNS boolean
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_queue integer;
    v_partitions bigint[];
    v_gone integer;
BEGIN
    SELECT d.queue_id INTO v_queue FROM @schema@.deleted_queues d
    ORDER BY d.queue_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF v_queue IS NULL THEN
        RETURN false;
    END IF;
    DELETE FROM @schema@.dead_letters d WHERE d.dead_letter_id IN (
        SELECT x.dead_letter_id FROM @schema@.dead_letters x WHERE x.queue_id = v_queue LIMIT 5000);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    IF v_gone > 0 THEN
        RETURN true;
    END IF;
    DELETE FROM @schema@.scheduled s WHERE s.scheduled_id IN (
        SELECT x.scheduled_id FROM @schema@.scheduled x WHERE x.queue_id = v_queue LIMIT 5000);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    IF v_gone > 0 THEN
        RETURN true;
    END IF;
    SELECT array_agg(l.partition_id) INTO v_partitions FROM (
        SELECT p.partition_id FROM @schema@.partitions p WHERE p.queue_id = v_queue
        ORDER BY p.partition_id LIMIT 500 FOR UPDATE) l;
    IF v_partitions IS NULL THEN
        DELETE FROM @schema@.deleted_queues d WHERE d.queue_id = v_queue;
        RETURN EXISTS (SELECT FROM @schema@.deleted_queues);
    END IF;
    DELETE FROM @schema@.segments s USING (
        SELECT x.partition_id, x.first_offset FROM @schema@.segments x
        WHERE x.partition_id = ANY (v_partitions) LIMIT 5000
    ) x WHERE s.partition_id = x.partition_id AND s.first_offset = x.first_offset;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    IF v_gone < 5000 THEN
        DELETE FROM @schema@.traces t WHERE t.partition_id = ANY (v_partitions);
        DELETE FROM @schema@.ledger_entries e WHERE e.partition_id = ANY (v_partitions);
        DELETE FROM @schema@.retries r WHERE r.partition_id = ANY (v_partitions);
        DELETE FROM @schema@.cursors c WHERE c.partition_id = ANY (v_partitions);
        DELETE FROM @schema@.partitions p WHERE p.partition_id = ANY (v_partitions);
    END IF;
    RETURN true;
END
$$;
