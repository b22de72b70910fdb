-- All queues, for selectors by namespace and task. The writer caches them.
SELECT queue_id, name, namespace, task, options, scheduled FROM queues
