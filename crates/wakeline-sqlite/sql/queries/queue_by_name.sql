-- A queue by its name.
-- Called by: Session::queue.
SELECT queue_id, name, namespace, task, options, scheduled FROM queues WHERE name = ?1
