-- How many messages are held back.
-- Called by: maintenance::held.
SELECT count(*) FROM scheduled INDEXED BY scheduled_held WHERE held = 1
