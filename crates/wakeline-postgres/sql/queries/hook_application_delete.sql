-- Removes an application. Called by: HookCatalog::delete_application.
SELECT @schema@.hook_application_delete($1, $2)
