-- Returns a job.
SELECT j.job_id, j.application_id, j.kind, j.endpoint_id, j.event_types, j.since, j.until,
    j.states, j.seen, j.changed, j.created_at, j.updated_at, j.finished_at IS NOT NULL AS finished
FROM @schema@.hook_jobs j WHERE j.job_id = $1
