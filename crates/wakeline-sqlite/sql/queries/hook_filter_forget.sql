-- Forgets who gets which event types of an application that is deleted.
-- Called by: application::delete. Walks the table.
DELETE FROM hook_filters WHERE application_no = ?1
