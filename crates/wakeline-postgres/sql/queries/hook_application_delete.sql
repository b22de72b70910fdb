-- Deletes an application.
SELECT o_gone, o_application, o_more FROM @schema@.hook_application_delete($1, $2)
