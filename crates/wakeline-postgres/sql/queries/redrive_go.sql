-- Carries a job on. Called by: QueueDeadLetters::do_queue_chores.
SELECT * FROM @schema@.redrive_go($1)
