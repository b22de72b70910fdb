-- A queue by its name.
SELECT queue_id, name, namespace, task, options, scheduled FROM queues WHERE name = ?1
