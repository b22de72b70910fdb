-- Changes what is suspended.
-- Called by: QueueMaintenance::set_maintenance.
SELECT * FROM @schema@.maintenance_set($1, $2)
