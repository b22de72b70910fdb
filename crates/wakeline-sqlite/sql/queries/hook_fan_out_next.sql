-- The first fan-out of the next application after ?1. Uses the primary key.
SELECT application_no, message_no, only_endpoint, place, last FROM hook_fan_outs
WHERE application_no > ?1 ORDER BY application_no, message_no LIMIT 1
