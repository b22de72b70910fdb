-- The number of messages that are held during maintenance.
SELECT count(*) FROM scheduled INDEXED BY scheduled_held WHERE held = 1
