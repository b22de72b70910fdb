-- A queue by its name.
-- Called by: Session::queue.
SELECT queue_id, name, namespace, task, options FROM queues WHERE name = ?1
