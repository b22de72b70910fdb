-- Stops endpoints of a deleted application. Called by: HookCatalog::delete_application.
SELECT @schema@.hook_application_stop($1, 500)
