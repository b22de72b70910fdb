-- All queues, for selectors by namespace and task. The writer reads them once and remembers them.
-- Called by: Session::matching.
SELECT queue_id, name, namespace, task, options, scheduled FROM queues
