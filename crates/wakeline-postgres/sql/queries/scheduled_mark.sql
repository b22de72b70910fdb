-- Marks queues in which messages will be scheduled.
SELECT @schema@.scheduled_mark($1)
