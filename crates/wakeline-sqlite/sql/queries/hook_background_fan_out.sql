-- A pending fan-out, if there is one.
SELECT 1 FROM hook_fan_outs LIMIT 1
