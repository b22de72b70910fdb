-- A queue by its id.
SELECT queue_id, name, namespace, task, options, scheduled FROM queues WHERE queue_id = ?1
