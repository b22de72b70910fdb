-- The oldest running job whose application has no pending fan-out. Uses the index
-- hook_jobs_running.
SELECT j.job_no, j.application_no, j.id, a.id, j.kind, j.filter, j.place, j.place_endpoint, j.seen, j.changed, j.created_at,
       j.updated_at, j.finished_at
FROM hook_jobs j INDEXED BY hook_jobs_running
CROSS JOIN hook_applications a ON a.application_no = j.application_no
WHERE j.finished_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM hook_fan_outs f WHERE f.application_no = j.application_no)
ORDER BY j.job_no LIMIT 1
