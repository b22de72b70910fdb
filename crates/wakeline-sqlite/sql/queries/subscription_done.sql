-- Forgets the subscriptions to a queue by its name: it exists now, and has the groups.
-- Called by: group::make_queue.
DELETE FROM subscriptions WHERE queue_name = ?1
