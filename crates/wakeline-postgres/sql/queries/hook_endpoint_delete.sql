-- Deletes an endpoint.
SELECT o_gone, o_more FROM @schema@.hook_endpoint_delete($1, $2, $3, $4)
