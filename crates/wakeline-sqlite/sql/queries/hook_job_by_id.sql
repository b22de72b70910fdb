-- One job by its id.
SELECT j.job_no, j.application_no, j.id, a.id, j.kind, j.filter, j.place, j.place_endpoint, j.seen, j.changed, j.created_at,
       j.updated_at, j.finished_at
FROM hook_jobs j CROSS JOIN hook_applications a ON a.application_no = j.application_no
WHERE j.id = ?1
