-- Puts triggers in place, or takes them away. Called by: PostgresStore::connect, and HintListener.
SELECT @schema@.notify_install($1, $2, $3) AS changed
