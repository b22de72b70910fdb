-- Forgets the fan-outs of an application that is deleted.
-- Called by: application::delete.
DELETE FROM hook_fan_outs WHERE application_no = ?1
