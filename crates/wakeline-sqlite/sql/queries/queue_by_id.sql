-- A queue by its id.
-- Called by: Session::queue_by_id.
SELECT queue_id, name, namespace, task, options, scheduled FROM queues WHERE queue_id = ?1
