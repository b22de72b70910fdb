-- Puts triggers in place, or takes them away. Called by: PostgresStore::connect.
SELECT @schema@.notify_install($1, $2) AS changed
