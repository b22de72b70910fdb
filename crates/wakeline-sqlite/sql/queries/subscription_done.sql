-- Removes the subscriptions to a queue by its name, once the queue was created with their groups,
-- or when it is deleted.
DELETE FROM subscriptions WHERE queue_name = ?1
