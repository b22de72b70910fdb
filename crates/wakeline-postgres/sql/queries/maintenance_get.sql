-- Returns what is suspended.
SELECT m.pushes, m.pops_paused FROM @schema@.maintenance m WHERE m.one
