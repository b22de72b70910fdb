-- Starts a job that redrives dead letters, unless it exists. Removes jobs that ended a week ago.
-- Lock order: the job.

CREATE OR REPLACE FUNCTION @schema@.redrive_start(
    p_job uuid, p_letter bigint, p_queue text, p_group text, p_partition text,
    p_from timestamptz, p_to timestamptz, p_error text, p_to_queue text, p_rate integer)
RETURNS void
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_now timestamptz := @schema@.clock();
BEGIN
    DELETE FROM @schema@.redrives r
    WHERE r.state <> 0 AND r.updated_at < v_now - interval '7 days';
    INSERT INTO @schema@.redrives (job_id, letter, queue, group_name, partition, from_at, to_at,
        error, to_queue, rate, last, total, due_at, created_at, updated_at)
    SELECT p_job, p_letter, p_queue, p_group, p_partition, p_from, p_to, p_error, p_to_queue,
        p_rate, coalesce((SELECT max(d.dead_letter_id) FROM @schema@.dead_letters d), 0), (
            SELECT count(*) FROM @schema@.dead_letters d
            JOIN @schema@.queues q ON q.queue_id = d.queue_id
            WHERE (p_letter IS NULL OR d.dead_letter_id = p_letter)
                AND (p_queue IS NULL OR q.name = p_queue)
                AND (p_group IS NULL OR d.group_name = p_group)
                AND (p_partition IS NULL OR d.partition = p_partition)
                AND (p_from IS NULL OR d.failed_at >= p_from)
                AND (p_to IS NULL OR d.failed_at < p_to)
                AND (p_error IS NULL OR strpos(d.error, p_error) > 0)
        ), v_now, v_now, v_now
    ON CONFLICT DO NOTHING;
END
$$;
