-- Returns a job.
SELECT letter, queue, group_name, partition, from_at, to_at, error, to_queue, rate, state, total,
    done, failed, created_at, updated_at
FROM @schema@.redrives WHERE job_id = $1
