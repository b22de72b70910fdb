-- Returns the next dead letters of a job, oldest first, and locks them, so that no other
-- transaction redrives or purges them meanwhile. The caller has locked the job's row. Lock order:
-- dead letters by number.

CREATE OR REPLACE FUNCTION @schema@.redrive_letters(p_job @schema@.redrives, p_most integer)
RETURNS SETOF @schema@.dead_letters
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT d.* FROM @schema@.dead_letters d
    WHERE d.dead_letter_id > p_job.place AND d.dead_letter_id <= p_job.last
        AND (p_job.letter IS NULL OR d.dead_letter_id = p_job.letter)
        AND (p_job.group_name IS NULL OR d.group_name = p_job.group_name)
        AND (p_job.partition IS NULL OR d.partition = p_job.partition)
        AND (p_job.from_at IS NULL OR d.failed_at >= p_job.from_at)
        AND (p_job.to_at IS NULL OR d.failed_at < p_job.to_at)
        AND (p_job.error IS NULL OR strpos(d.error, p_job.error) > 0)
        AND EXISTS (SELECT FROM @schema@.queues q WHERE q.queue_id = d.queue_id
            AND (p_job.queue IS NULL OR q.name = p_job.queue))
    ORDER BY d.dead_letter_id LIMIT p_most FOR UPDATE;
END
$$;
