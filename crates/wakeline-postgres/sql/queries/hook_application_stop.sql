-- Stops endpoints of a deleted application.
SELECT @schema@.hook_application_stop($1, 500)
