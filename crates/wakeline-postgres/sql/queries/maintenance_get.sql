-- What is suspended.
-- Called by: QueueMaintenance::maintenance.
SELECT m.pushes, m.pops_paused FROM @schema@.maintenance m WHERE m.one
