-- Writes the progress of a job after a batch: its position, how many dead letters it has redriven
-- and how many it left, and when the next batch is due by its rate. Runs under the job's lock.

CREATE OR REPLACE FUNCTION @schema@.redrive_moved(
    p_job @schema@.redrives, p_place bigint, p_read integer, p_done integer, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    p_job.place := greatest(p_job.place, p_place);
    UPDATE @schema@.redrives r SET place = p_job.place, done = r.done + p_done,
        failed = r.failed + p_read - p_done, updated_at = p_now,
        due_at = CASE WHEN r.rate IS NULL THEN r.due_at
            ELSE p_now + make_interval(secs => p_read::double precision / r.rate) END,
        state = CASE WHEN EXISTS (SELECT FROM @schema@.redrive_letters(p_job, 1)) THEN 0 ELSE 1 END
    WHERE r.number = p_job.number;
END
$$;
