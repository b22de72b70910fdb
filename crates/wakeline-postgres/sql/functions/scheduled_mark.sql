-- Marks queues in which messages will be scheduled, so that pushes and claims check for them. It
-- runs in a transaction of its own, before the first of them: it locks queues. Lock order: queues
-- by id.

CREATE OR REPLACE FUNCTION @schema@.scheduled_mark(p_queues text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM @schema@.queues q WHERE q.name = ANY (p_queues) AND NOT q.scheduled
    ORDER BY q.queue_id FOR NO KEY UPDATE;
    UPDATE @schema@.queues q SET scheduled = true WHERE q.name = ANY (p_queues) AND NOT q.scheduled;
END
$$;
