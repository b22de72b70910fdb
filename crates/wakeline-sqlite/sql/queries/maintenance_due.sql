-- A queue with messages that were held during maintenance.
SELECT queue_id FROM scheduled INDEXED BY scheduled_held WHERE held = 1 LIMIT 1
