-- Cancels a running job; returns a row if it was running.
UPDATE @schema@.redrives SET state = 2, updated_at = @schema@.clock()
WHERE job_id = $1 AND state = 0 RETURNING true
