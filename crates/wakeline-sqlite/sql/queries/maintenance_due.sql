-- A queue that has messages which were held back.
-- Called by: maintenance::release.
SELECT queue_id FROM scheduled INDEXED BY scheduled_held WHERE held = 1 LIMIT 1
