-- Starts a job. Called by: QueueDeadLetters::start_redrive.
SELECT @schema@.redrive_start($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
