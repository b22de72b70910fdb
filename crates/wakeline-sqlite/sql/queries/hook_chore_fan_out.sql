-- A fan-out that waits.
-- Called by: chore::due.
SELECT 1 FROM hook_fan_outs LIMIT 1
