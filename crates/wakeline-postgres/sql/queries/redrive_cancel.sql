-- Stops a job that is running; a row if it was. Called by: QueueDeadLetters::cancel_redrive.
UPDATE @schema@.redrives SET state = 2, updated_at = @schema@.clock()
WHERE job_id = $1 AND state = 0 RETURNING true
