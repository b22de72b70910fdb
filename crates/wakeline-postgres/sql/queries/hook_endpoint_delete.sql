-- Removes an endpoint. Called by: HookCatalog::delete_endpoint.
SELECT @schema@.hook_endpoint_delete($1, $2, $3, $4)
