-- Starts a job.
SELECT @schema@.redrive_start($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
