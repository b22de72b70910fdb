-- Continues a job.
SELECT * FROM @schema@.redrive_go($1)
