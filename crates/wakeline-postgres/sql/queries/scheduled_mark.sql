-- Marks queues in which messages are going to be scheduled. Called by: QueueStore::transact.
SELECT @schema@.scheduled_mark($1)
