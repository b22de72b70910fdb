-- Makes a queue disappear; its rows are purged later.
SELECT @schema@.queue_delete($1)
